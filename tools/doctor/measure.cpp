#include "doctor/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <set>
#include <sstream>

#include <tutti/communicator.hpp>

#include "doctor/probe.hpp"
#include "doctor/root.hpp"
#include "doctor/seat.hpp"

namespace tutti::doctor {

namespace {

struct Peer {
  Rank rank;
  bool i_am_first;  ///< to send
};

/// Microseconds of a message one way.
double ping_pong(Communicator& comm, Peer peer, std::span<std::byte> memory, int calls) {
  using Microseconds = std::chrono::duration<double, std::micro>;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) {
    if (peer.i_am_first) comm.send(memory.data(), memory.size(), DataType::uint8, peer.rank);
    comm.receive(memory.data(), memory.size(), DataType::uint8, peer.rank);
    if (!peer.i_am_first) comm.send(memory.data(), memory.size(), DataType::uint8, peer.rank);
  }
  return Microseconds(std::chrono::steady_clock::now() - start).count() / (2 * calls);
}

/// The median of five times, each over some milliseconds: both ranks make as many calls as the first says.
double typical(Communicator& comm, Peer peer, std::span<std::byte> memory) {
  constexpr double enough_us = 4000;
  constexpr int few = 3, most = 20000;
  ping_pong(comm, peer, memory, 1);
  const double estimate = ping_pong(comm, peer, memory, few);
  std::int32_t calls = static_cast<int>(std::clamp<double>(enough_us / (2 * estimate), 1, most));
  if (peer.i_am_first) comm.send(&calls, 1, DataType::int32, peer.rank);
  if (!peer.i_am_first) comm.receive(&calls, 1, DataType::int32, peer.rank);
  std::array<double, 5> times{};
  for (double& time : times) time = ping_pong(comm, peer, memory, calls);
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// What `explain` says about a peer: "tcp: tcp via eth0 ..." of the line "  rank 3: tcp: tcp via eth0 ...".
std::string line_about(const std::string& text, int peer) {
  const std::string start = fmt::format("  rank {}: ", peer);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(start)) return line.substr(start.size());
  return {};
}

/// What this rank, one of the two, finds out about the pair. A communicator of its own: what happens to this
/// pair says nothing about others.
nlohmann::json play(const UniqueId& id, bool first, const Options& options) {
  constexpr std::size_t small = 8, large = 4 << 20;
  Communicator comm(id, first ? 0 : 1, 2, options);
  const Peer peer{.rank = 1 - comm.rank(), .i_am_first = first};
  std::vector<std::byte> memory(large);
  const std::span all(memory);
  const double latency = typical(comm, peer, all.first(small));
  const double time = typical(comm, peer, all);
  return {{"latency", latency},
          {"bandwidth", static_cast<double>(large) / (time * 1e3)},
          {"about", line_about(comm.explain({.operation = Operation::send, .root = peer.rank}), peer.rank)}};
}

/// As `play`, with a failure as {"error": text}; of a rank that is not one of the two, {}.
nlohmann::json try_to_play(Team& team, int a, int b, const Options& options) {
  nlohmann::json made = "";
  if (team.rank() == a) made = UniqueId::create(team.address()).to_string();
  const std::string id = team.gather(made).at(static_cast<std::size_t>(a));
  if (team.rank() != a && team.rank() != b) return nlohmann::json::object();
  try {
    const bool first = team.rank() == a;
    const Seat seat(team.rank(), first ? b : a, first);
    return play(UniqueId::parse(id), first, options);
  } catch (const Error& error) {
    return {{"error", error.what()}, {"code", error.code()}};
  }
}

Pair measure(Team& team, int a, int b, const Options& options) {
  const auto all = team.gather(try_to_play(team, a, b, options));
  Pair pair{.a = a, .b = b};
  for (const int rank : {a, b}) {
    const auto& told = all.at(static_cast<std::size_t>(rank));
    if (told.contains("error")) note_failure(pair, told.at("code"), told.at("error"));
  }
  if (!pair.error.empty()) return pair;
  const auto& told = all.at(static_cast<std::size_t>(a));
  const std::string about = told.at("about");
  const auto colon = about.find(": ");
  pair.transport = about.substr(0, colon);
  if (colon != std::string::npos) pair.explanation = about.substr(colon + 2);
  pair.latency_us = told.at("latency");
  pair.gigabytes = told.at("bandwidth");
  return pair;
}

std::vector<std::string> names(const std::vector<Machine>& machines, int size) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) names.push_back(machines.at(machine_of(machines, rank)).name);
  return names;
}

std::string listening_ports() {
  int low = 0, high = 0;
  std::istringstream(Root().text("/proc/sys/net/ipv4/ip_local_port_range").value_or("")) >> low >> high;
  return fmt::format("{}-{}", low, high);
}

}  // namespace

std::vector<int> choose_ranks(const std::vector<Machine>& machines) {
  constexpr std::size_t most = 32;  // 496 pairs take a minute
  std::size_t all = 0;
  for (const Machine& machine : machines) all += machine.ranks.size();
  const std::size_t share = all <= most ? most : std::max<std::size_t>(1, most / machines.size());
  std::vector<int> chosen;
  for (const auto& [name, ranks, processors] : machines) {
    const std::size_t count = std::min({share, ranks.size(), most - chosen.size()});
    for (std::size_t i = 0; i < count; ++i) chosen.push_back(ranks[i * ranks.size() / count]);
  }
  std::ranges::sort(chosen);
  return chosen;
}

PairFacts measure_pairs(Team& team, const std::vector<Machine>& machines, const Options& options) {
  constexpr int most_errors = 3;
  const auto ranks = choose_ranks(machines);
  PairFacts facts{.machine = names(machines, team.size()),
                  .blocked = probe_connections(team, machines, ranks),
                  .left_out = team.size() - static_cast<int>(ranks.size()),
                  .ports = listening_ports(),
                  .wanted = options.transport};
  std::set<std::pair<int, int>> blocked;
  for (const auto& one : facts.blocked) blocked.insert(std::minmax(one.from, one.to));
  int errors = 0;
  for (std::size_t a = 0; a < ranks.size(); ++a)
    for (std::size_t b = a + 1; b < ranks.size(); ++b) {
      if (blocked.contains({ranks[a], ranks[b]})) continue;
      facts.given_up = facts.given_up || errors >= most_errors;
      if (facts.given_up) continue;
      facts.pairs.push_back(measure(team, ranks[a], ranks[b], options));
      errors += facts.pairs.back().error.empty() ? 0 : 1;
    }
  return facts;
}

}  // namespace tutti::doctor
