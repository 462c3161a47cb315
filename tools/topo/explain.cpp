#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "communicator/select.hpp"
#include "sim/report.hpp"
#include "simulation/compare.hpp"
#include "simulation/host_network.hpp"
#include "simulation/world_network.hpp"
#include "topo/commands.hpp"
#include "topology/choice.hpp"
#include "topology/load.hpp"

namespace tutti::topo {

namespace {

using simulation::Candidate;
using simulation::size_text;

struct Request {
  std::string operation{}, topology{};  ///< no topology: this machine, with CPU buffers
  std::size_t bytes = 0;
  int nodes = 1, ranks = 0;
  bool json = false;
};

/// Pairs of ranks that talk alike.
struct Kind {
  std::string name{};
  Rank from = 0, to = 0;  ///< one such pair
  topology::Choice choice{};
};

/// Two ranks a device of `host` stand for all of them.
std::vector<Rank> some_of(const topology::World& world, const std::vector<Rank>& host) {
  std::map<topology::NodeId, int> seen;
  std::vector<Rank> some;
  for (const Rank rank : host)
    if (seen[world.seat(rank).device]++ < 2) some.push_back(rank);
  return some;
}

std::string name_of(const topology::World& world, Rank from, Rank to) {
  const topology::Seat &a = world.seat(from), &b = world.seat(to);
  if (a.host == b.host) return a.device == b.device ? "same node, same device" : "same node";
  return a.port == b.port ? "other node, same rail" : "other node, other rail";
}

// Hosts are of one kind: those next to the first one and last speak for all.
std::vector<Kind> kinds_of_pairs(const topology::World& world, const topology::Rules& rules) {
  const auto hosts = topology::ranks_by_host(world);
  std::vector<std::size_t> others{0};
  if (hosts.size() > 1) others.push_back(1);
  if (hosts.size() > 2) others.push_back(hosts.size() - 1);
  using Key = std::tuple<std::string, topology::Means, topology::PathClass, topology::PathClass>;
  std::map<Key, Kind> kinds;
  for (const Rank from : some_of(world, hosts[0]))
    for (const std::size_t other : others)
      for (const Rank to : some_of(world, hosts[other])) {
        if (from == to) continue;
        Kind kind{name_of(world, from, to), from, to, topology::choose(world, from, to, rules)};
        const auto [near, far] = std::minmax(kind.choice.route.leaving.kind, kind.choice.route.arriving.kind);
        kinds.try_emplace({kind.name, kind.choice.means, near, far}, kind);
      }
  std::vector<Kind> list;
  list.reserve(kinds.size());
  for (auto& [key, kind] : kinds) list.push_back(std::move(kind));
  std::ranges::sort(list, {}, [](const Kind& kind) { return std::pair(kind.from, kind.to); });
  return list;
}

struct Explanation {
  std::vector<Kind> kinds{};
  Choice library{};  ///< by the thresholds of select.cpp
  simulation::Network network{};
  sim::Answer answer{};
};

Explanation explain(const Request& request, const topology::World& world) {
  if (world.size() < 2) throw Error(ErrorCode::invalid_argument, "one rank talks to nobody; see --ranks");
  const Collective collective = parse_collective(request.operation);
  const bool described = !request.topology.empty();
  Explanation found;
  found.kinds = kinds_of_pairs(world, {.memory = described ? topology::Memory::gpu : topology::Memory::cpu});
  Circumstances circumstances;
  circumstances.collective = collective;
  circumstances.bytes = request.bytes;
  circumstances.ranks = world.size();
  circumstances.shared_memory = request.nodes == 1;
  found.library = select(circumstances);
  found.network = described ? simulation::network_of(world) : simulation::host_network(world.size(), {});
  simulation::Question question;
  question.collective = collective;
  question.bytes = request.bytes;
  found.answer = {request.nodes, request.bytes};
  found.answer.candidates = simulation::candidates(found.network, question, &found.answer.left_out);
  return found;
}

/// The candidate after the fastest, and the first by another algorithm, where that is not the same.
std::vector<const Candidate*> runners_up(const std::vector<Candidate>& all) {
  std::vector<const Candidate*> found;
  if (all.size() > 1) found.push_back(&all[1]);
  const auto other =
      std::ranges::find_if(all, [&](const Candidate& one) { return one.algorithm != all[0].algorithm; });
  if (other != all.end() && &*other != found[0]) found.push_back(&*other);
  return found;
}

int lanes_of(const Candidate& one) {
  return std::ranges::max(one.result.ranks, {}, &simulation::RankCounts::lanes).lanes;
}

void print_loser(const Explanation& found, const Candidate& loser) {
  const Candidate& best = found.answer.candidates[0];
  constexpr double us = 1e6;
  fmt::print("not {} in pieces of {}: {:.2f} us, {:.2f} us more\n", loser.algorithm->name,
             size_text(static_cast<double>(loser.result.piece)), loser.result.seconds * us,
             (loser.result.seconds - best.result.seconds) * us);
  const auto reasons = simulation::differences(found.network, loser, best);
  for (const auto& reason : reasons) fmt::print("  {:+.2f} us {}\n", reason.seconds * us, reason.what);
  if (reasons.empty()) fmt::print("  it is as fast; of equals, the first in the library's list is taken\n");
}

void print(const Request& request, const topology::World& world, const Explanation& found) {
  fmt::print("{} of {} on {} ranks, {} a node\n\ntransports\n", request.operation,
             size_text(static_cast<double>(request.bytes)), world.size(), world.size() / request.nodes);
  for (const Kind& kind : found.kinds)
    fmt::print("{}: {}", kind.name, topology::describe(world, kind.from, kind.to, kind.choice));

  fmt::print(
      "\na communicator (CPU buffers) chooses by thresholds, not by simulation: {}, pieces up to {} "
      "({})\n",
      found.library.algorithm->name, size_text(static_cast<double>(found.library.piece)), found.library.why);
  fmt::print("\nthe simulator, {}\n", request.topology.empty()
                                          ? "with default costs of shared memory that nobody measured here"
                                          : "with buffers on the devices, on the paths of the topology");
  const Candidate& best = found.answer.candidates[0];
  fmt::print("fastest: {}, {} lanes, chunks of {} in pieces of {}, {} messages: {:.2f} us\n",
             best.algorithm->name, lanes_of(best), size_text(static_cast<double>(best.result.chunk)),
             size_text(static_cast<double>(best.result.piece)), best.result.messages,
             best.result.seconds * 1e6);
  if (!best.result.links.empty())
    fmt::print("busiest link: {:.0f}% {}, {}\n", 100 * sim::load(found.network, best, best.result.links[0]),
               simulation::link_text(found.network, best.result.links[0]),
               size_text(best.result.links[0].bytes));
  for (const Candidate* loser : runners_up(found.answer.candidates)) print_loser(found, *loser);
  if (!found.answer.left_out.empty())
    fmt::print("slower, not simulated to the end: {}\n", sim::left_out_text(found.answer));
}

nlohmann::json to_json(const Request& request, const topology::World& world, const Explanation& found) {
  nlohmann::json pairs = nlohmann::json::array(), lost = nlohmann::json::array();
  for (const Kind& kind : found.kinds) {
    nlohmann::json refused = nlohmann::json::array();
    for (const auto& refusal : kind.choice.refused)
      refused.push_back({{"means", topology::name(refusal.means)}, {"why", refusal.why}});
    pairs.push_back({{"kind", kind.name},
                     {"from", kind.from},
                     {"to", kind.to},
                     {"means", topology::name(kind.choice.means)},
                     {"refused", std::move(refused)}});
  }
  for (const Candidate* loser : runners_up(found.answer.candidates)) {
    nlohmann::json reasons = nlohmann::json::array();
    for (const auto& reason : simulation::differences(found.network, *loser, found.answer.candidates[0]))
      reasons.push_back({{"seconds", reason.seconds}, {"what", reason.what}});
    lost.push_back({{"algorithm", loser->algorithm->name},
                    {"piece", loser->result.piece},
                    {"seconds", loser->result.seconds},
                    {"differences", std::move(reasons)}});
  }
  return {{"operation", request.operation},
          {"bytes", request.bytes},
          {"ranks", world.size()},
          {"pairs", std::move(pairs)},
          {"library",
           {{"algorithm", found.library.algorithm->name},
            {"piece", found.library.piece},
            {"why", found.library.why}}},
          {"prediction", sim::to_json(found.network, found.answer)},
          {"lost", std::move(lost)}};
}

void answer(const Request& request) {
  const bool described = !request.topology.empty();
  constexpr int local_ranks = 2;  // a machine without GPUs may have one NUMA node
  const topology::World world =
      topology::uniform_world(topology::load(described ? request.topology : "this"), request.nodes,
                              request.ranks == 0 && !described ? local_ranks : request.ranks);
  const Explanation found = explain(request, world);
  if (request.json)
    fmt::print("{}\n", to_json(request, world, found).dump(2));
  else
    print(request, world, found);
}

}  // namespace

void add_explain(CLI::App& app) {
  auto request = std::make_shared<Request>();
  auto* command = app.add_subcommand(
      "explain", "Shows by what transports and which schedule an operation goes, and why by no other");
  command->add_option("operation", request->operation, "all_reduce, all_to_all, ...")->required();
  command->add_option("bytes", request->bytes, "Size as nccl-tests counts it: 64M")
      ->required()
      ->transform(CLI::AsSizeValue(false));
  auto* topology = command->add_option("--topology", request->topology,
                                       "A built-in machine or a file (default: this machine's own ranks)");
  command->add_option("--nodes", request->nodes, "So many machines (default 1)")
      ->check(CLI::Range(1, 100'000))
      ->needs(topology);
  command->add_option("--ranks", request->ranks, "Ranks on each (default: one a GPU; on this machine 2)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", request->json, "All that is known, for programs");
  command->callback([request] { answer(*request); });
}

}  // namespace tutti::topo
