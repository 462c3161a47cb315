#include "doctor/pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace tutti::doctor {

namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::string range(const std::vector<double>& values, const char* unit) {
  const auto [low, high] = std::ranges::minmax(values);
  const auto text = [](double value) { return fmt::format("{:.{}f}", value, value < 100 ? 2 : 0); };
  return text(low) == text(high) ? fmt::format("{} {}", text(low), unit)
                                 : fmt::format("{} to {} {}", text(low), text(high), unit);
}

/// In the pair's own communicator its ranks are 0 and 1.
std::string with_ranks(const Pair& pair, const std::string& text) {
  const auto mentions = [&](const char* rank) { return text.find(rank) != std::string::npos; };
  if ((pair.a == 0 && pair.b == 1) || (!mentions("rank 0") && !mentions("rank 1"))) return text;
  return fmt::format("{} (rank 0 is {} here, rank 1 is {})", text, pair.a, pair.b);
}

const std::string& machine(const PairFacts& facts, int rank) {
  return facts.machine.at(static_cast<std::size_t>(rank));
}

Finding blocked_finding(const PairFacts& facts, const Blocked& one) {
  return {.area = "pairs",
          .level = Level::error,
          .what = fmt::format("rank {} ({}) cannot connect to rank {} ({}) at {}: {}", one.from,
                              machine(facts, one.from), one.to, machine(facts, one.to), one.address, one.why),
          .remedy = fmt::format(
              "let TCP through between these machines, ports {} (firewall of {}, security groups, "
              "routes), or name a network that leads there: TUTTI_INTERFACE",
              facts.ports, machine(facts, one.to)),
          .data = {{"from", one.from}, {"to", one.to}, {"address", one.address}, {"why", one.why}}};
}

Findings examine_blocked(const PairFacts& facts) {
  constexpr std::size_t shown = 8;
  Findings findings;
  for (std::size_t i = 0; i < std::min(facts.blocked.size(), shown); ++i)
    findings.push_back(blocked_finding(facts, facts.blocked[i]));
  if (facts.blocked.size() > shown)
    findings.push_back(
        {.area = "pairs",
         .level = Level::error,
         .what = fmt::format("{} more connections did not come about", facts.blocked.size() - shown)});
  return findings;
}

/// Settings and the limit of descriptors hold for every transport; other faults of the system may be those
/// of RDMA devices.
bool says_what_to_change(const Pair& failed) {
  return failed.code == ErrorCode::invalid_argument ||
         failed.error.find("limit of file descriptors") != std::string::npos;
}

bool is_of_others(ErrorCode code) { return code == ErrorCode::aborted || code == ErrorCode::peer_lost; }

Finding failed_finding(const PairFacts& facts, const Pair& pair) {
  return {.area = "pairs",
          .level = Level::error,
          .what = fmt::format("ranks {} ({}) and {} ({}) do not work together: {}", pair.a,
                              machine(facts, pair.a), pair.b, machine(facts, pair.b),
                              with_ranks(pair, pair.error)),
          .remedy = facts.wanted == "tcp" || says_what_to_change(pair)
                        ? ""
                        : "try --transport tcp: when that works, RDMA or shared memory is at "
                          "fault, and the message says how",
          .data = {{"a", pair.a}, {"b", pair.b}, {"error", with_ranks(pair, pair.error)}}};
}

using ByTransport = std::map<std::string, std::vector<const Pair*>>;

std::vector<double> values(const std::vector<const Pair*>& pairs, double Pair::*member) {
  std::vector<double> all(pairs.size());
  std::ranges::transform(pairs, all.begin(), [&](const Pair* pair) { return pair->*member; });
  return all;
}

Finding summary(const std::string& transport, const std::vector<const Pair*>& pairs) {
  const Pair& first = *pairs.front();
  Finding finding{.area = "pairs"};
  finding.what = fmt::format(
      "{} pair{} by {}: {} for 8 bytes, {} for 4 MiB; rank {} to {}: {}", pairs.size(),
      pairs.size() == 1 ? "" : "s", transport, range(values(pairs, &Pair::latency_us), "us"),
      range(values(pairs, &Pair::gigabytes), "GB/s"), first.a, first.b, with_ranks(first, first.explanation));
  finding.data = {{"transport", transport}, {"pairs", pairs.size()}};
  return finding;
}

/// Much worse than the median of the pairs with the same transport.
Findings slow_pairs(const std::string& transport, const std::vector<const Pair*>& pairs) {
  constexpr double noise_us = 5;
  Findings findings;
  const double latency = median(values(pairs, &Pair::latency_us));
  const double bandwidth = median(values(pairs, &Pair::gigabytes));
  for (const Pair* pair : pairs) {
    const bool late = pair->latency_us > 4 * latency && pair->latency_us > latency + noise_us;
    if (!late && pair->gigabytes >= bandwidth / 2) continue;
    findings.push_back(
        {.area = "pairs",
         .level = Level::warning,
         .what = fmt::format(
             "ranks {} and {} are slow: {:.2f} us and {:.2f} GB/s, where {:.2f} and {:.2f} are usual by {}",
             pair->a, pair->b, pair->latency_us, pair->gigabytes, latency, bandwidth, transport),
         .remedy =
             "look for other load on their processors, their places (NUMA nodes), cables and switch ports",
         .data = {{"a", pair->a}, {"b", pair->b}}});
  }
  return findings;
}

/// Rows and columns are ranks; a pair's value stands in both of its places.
std::string matrix(const PairFacts& facts, const char* title, double Pair::*member) {
  std::set<int> ranks;
  std::map<std::pair<int, int>, double> value;
  for (const Pair& pair : facts.pairs) {
    if (!pair.error.empty()) continue;
    ranks.insert({pair.a, pair.b});
    value[{pair.a, pair.b}] = value[{pair.b, pair.a}] = pair.*member;
  }
  std::string text = fmt::format("{:<15}", title);
  for (const int column : ranks) text += fmt::format(" {:>8}", column);
  for (const int row : ranks) {
    text += fmt::format("\n{:>15}", fmt::format("rank {}", row));
    for (const int column : ranks) {
      const auto at = value.find({row, column});
      text += at == value.end() ? fmt::format(" {:>8}", "-") : fmt::format(" {:>8.2f}", at->second);
    }
  }
  return text + "\n";
}

nlohmann::json data_of(const Pair& pair) {
  return {{"a", pair.a},
          {"b", pair.b},
          {"error", with_ranks(pair, pair.error)},
          {"transport", pair.transport},
          {"explanation", with_ranks(pair, pair.explanation)},
          {"latency_us", pair.latency_us},
          {"bandwidth_gbs", pair.gigabytes}};
}

Finding measured(const PairFacts& facts) {
  const auto good = std::ranges::count_if(facts.pairs, [](const Pair& pair) { return pair.error.empty(); });
  Finding finding{.area = "pairs",
                  .what = fmt::format("{} pair{} measured, one after the other", good, good == 1 ? "" : "s")};
  finding.data["pairs"] = nlohmann::json::array();
  for (const Pair& pair : facts.pairs) finding.data["pairs"].push_back(data_of(pair));
  if (facts.left_out > 0) {
    finding.level = Level::note;
    const int all = static_cast<int>(facts.machine.size());
    finding.what += fmt::format("; {} ranks are too many, these are of {} from all over the machines", all,
                                all - facts.left_out);
  }
  if (facts.given_up) {
    finding.level = Level::note;
    finding.what += "; the others were not tried after these errors";
  }
  if (good > 0)
    finding.table =
        matrix(facts, "8 B: us", &Pair::latency_us) + matrix(facts, "4 MiB: GB/s", &Pair::gigabytes);
  return finding;
}

}  // namespace

void note_failure(Pair& pair, ErrorCode code, const std::string& error) {
  if (!pair.error.empty() && (!is_of_others(pair.code) || is_of_others(code))) return;
  pair.code = code;
  pair.error = error;
}

Findings examine(const PairFacts& facts) {
  Findings findings = examine_blocked(facts);
  ByTransport by_transport;
  for (const Pair& pair : facts.pairs) {
    if (pair.error.empty())
      by_transport[pair.transport].push_back(&pair);
    else
      findings.push_back(failed_finding(facts, pair));
  }
  for (const auto& [transport, pairs] : by_transport) {
    findings.push_back(summary(transport, pairs));
    for (auto& slow : slow_pairs(transport, pairs)) findings.push_back(std::move(slow));
  }
  findings.push_back(measured(facts));
  return findings;
}

}  // namespace tutti::doctor
