#include "sim/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "bus_factor.hpp"
#include "simulation/compare.hpp"

namespace tutti::sim {

namespace {

using simulation::Candidate;
using simulation::link_text;
using simulation::LinkCounts;
using simulation::load;
using simulation::most_of_a_rank;
using simulation::Network;
using simulation::RankCounts;
using simulation::size_text;

constexpr double gigabytes = 1e-9;
// Of ConnectX adapters, from the structure of the device's interface; docs/simulation.md.
constexpr std::size_t queue_pair_context_bytes = 232;

std::uint64_t buffers(const Candidate& candidate) {
  return most_of_a_rank(candidate,
                        [](const RankCounts& rank) { return rank.buffer_bytes + rank.scratch_bytes; });
}

/// GB/s.
double bus_bandwidth(Collective collective, int ranks, std::size_t bytes, double seconds) {
  return seconds == 0 ? 0 : static_cast<double>(bytes) * bus_factor(collective, ranks) / seconds * gigabytes;
}

}  // namespace

void print_header(std::FILE* to) {
  fmt::print(to, "{:>6} {:>7} {:>7}  {:<18} {:>6} {:>11} {:>8} {:>14} {:>7} {:>8} {:>8}  {}\n", "nodes",
             "ranks", "bytes", "algorithm", "piece", "us", "busbw", "messages", "QPs/NIC", "QP ctx",
             "buffers", "busiest link");
}

bool print(std::FILE* to, const Network& network, const Answer& answer, int links) {
  bool any_estimated = false;
  for (std::size_t i = 0; i < std::min<std::size_t>(answer.ranking.candidates.size(), 2); ++i) {
    const Candidate& one = answer.ranking.candidates[i];
    const int pairs = simulation::queue_pairs_per_adapter(network, one.result);
    std::string busiest = "-";
    if (!one.result.links.empty())
      busiest = fmt::format("{:.0f}% {}", 100 * load(network, one, one.result.links[0]),
                            link_text(network, one.result.links[0]));
    fmt::print(to, "{:>6} {:>7} {:>7}  {:<18} {:>6} {:>11} {:>8.1f} {:>14} {:>7} {:>8} {:>8}  {}\n",
               i == 0 ? std::to_string(answer.nodes) : "", i == 0 ? std::to_string(network.ranks) : "",
               i == 0 ? size_text(static_cast<double>(answer.bytes)) : "next", one.algorithm->name,
               size_text(static_cast<double>(one.result.piece)), simulation::time_text(one.result),
               bus_bandwidth(one.algorithm->collective, network.ranks, answer.bytes, one.result.seconds),
               one.result.messages, pairs, size_text(static_cast<double>(pairs) * queue_pair_context_bytes),
               size_text(static_cast<double>(buffers(one))), busiest);
    any_estimated = any_estimated || one.result.estimated;
    if (i > 0) continue;
    for (int l = 0; l < std::min(links, static_cast<int>(one.result.links.size())); ++l) {
      const LinkCounts& link = one.result.links[static_cast<std::size_t>(l)];
      fmt::print(to, "{:>24}{:>4.0f}% {:>8} {}\n", "", 100 * load(network, one, link), size_text(link.bytes),
                 link_text(network, link));
    }
  }
  fmt::print(to, "{}", simulation::describe(answer.ranking.left_out, more_effort, std::string(24, ' ')));
  return any_estimated;
}

nlohmann::json to_json(const simulation::Spent& spent) {
  return {{"latency_seconds", spent.latency},  {"link_seconds", spent.links},
          {"message_seconds", spent.messages}, {"copy_seconds", spent.copies},
          {"fold_seconds", spent.folds},       {"step_seconds", spent.steps},
          {"call_seconds", spent.calls},       {"hops", spent.hops}};
}

nlohmann::json to_json(const Network& network, const Answer& answer) {
  nlohmann::json all = nlohmann::json::array();
  for (const Candidate& one : answer.ranking.candidates) {
    const int pairs = simulation::queue_pairs_per_adapter(network, one.result);
    nlohmann::json links = nlohmann::json::array();
    for (const LinkCounts& link : one.result.links)
      links.push_back({{"name", network.link_name(link.link)},
                       {"alike", link.alike},
                       {"bytes", link.bytes},
                       {"busy_seconds", link.busy},
                       {"load", load(network, one, link)}});
    all.push_back(
        {{"algorithm", one.algorithm->name},
         {"piece", one.result.piece},
         {"chunk", one.result.chunk},
         {"lanes", most_of_a_rank(one, [](const RankCounts& rank) { return rank.lanes; })},
         {"seconds", one.result.seconds},
         {"estimated", one.result.estimated},
         {"busbw_gb_s",
          bus_bandwidth(one.algorithm->collective, network.ranks, answer.bytes, one.result.seconds)},
         {"messages", one.result.messages},
         {"messages_sent_most",
          most_of_a_rank(one, [](const RankCounts& rank) { return rank.messages_sent; })},
         {"bytes_sent_most", most_of_a_rank(one, [](const RankCounts& rank) { return rank.bytes_sent; })},
         {"bytes_folded_most", most_of_a_rank(one, [](const RankCounts& rank) { return rank.bytes_folded; })},
         {"critical_path", to_json(one.result.spent)},
         {"besides_seconds", one.besides},
         {"queue_pairs_per_adapter", pairs},
         {"queue_pair_context_bytes", static_cast<std::size_t>(pairs) * queue_pair_context_bytes},
         {"buffer_bytes_per_rank", buffers(one)},
         {"ranks_simulated", one.result.representatives.size()},
         {"links", std::move(links)}});
  }
  nlohmann::json left_out = nlohmann::json::array();
  for (const simulation::LeftOut& one : answer.ranking.left_out)
    left_out.push_back({{"algorithm", one.algorithm->name},
                        {"piece", one.piece},
                        {"seconds_at_least", one.at_least},
                        {"too_long_to_simulate", one.too_long}});
  return {{"nodes", answer.nodes},
          {"ranks", network.ranks},
          {"bytes", answer.bytes},
          {"collective", tutti::name(answer.ranking.candidates[0].algorithm->collective)},
          {"candidates", std::move(all)},
          {"left_out", std::move(left_out)}};
}

}  // namespace tutti::sim
