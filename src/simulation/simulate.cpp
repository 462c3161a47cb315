#include "simulation/simulate.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <optional>
#include <utility>

#include "collectives/partial_build.hpp"
#include "simulation/at.hpp"
#include "simulation/cast.hpp"
#include "simulation/engine.hpp"
#include "simulation/rounds.hpp"

namespace tutti::simulation {

namespace {

// Bytes of the largest chunk of the caller's buffers.
std::size_t largest_chunk(const Schedule& schedule, const Workload& workload) {
  const execution::Shape shape = shape_of(schedule, workload);
  if (shape.divisible) {
    const std::size_t unit = static_cast<std::size_t>(std::max(schedule.chunks, 1)) * size_of(workload.type);
    return (shape.total + unit - 1) / unit * size_of(workload.type);
  }
  std::size_t largest = 0;
  for (const auto& extents : {shape.input, shape.output})
    for (const auto& extent : extents) largest = std::max(largest, extent.bytes);
  return largest;
}

Result run(const Schedule& schedule, const Network& network, const Workload& workload, Quotient& quotient,
           bool even, const Limits& limits) {
  std::vector<Actor> actors = cast(schedule, network, workload, quotient, even);
  std::optional<Result> found;
  Limits left = limits;
  if (workload.extrapolates && workload.calls == 1 && steps_in_all(actors) >= workload.extrapolates_from)
    found = by_some_rounds(network, quotient, actors, left);
  Result result = found ? std::move(*found) : Engine(network, quotient, actors, workload.calls).run(left);
  result.estimated = found.has_value();
  result.effort += limits.effort - left.effort;
  result.chunk = largest_chunk(schedule, workload);
  for (const Actor& actor : actors)
    result.piece = std::max<std::size_t>(result.piece, std::min(actor.program.piece, result.chunk));
  return result;
}

// What a rank works in all, on average.
double work(const Result& result) {
  double seconds = 0, ranks = 0;
  for (std::size_t i = 0; i < result.ranks.size(); ++i) {
    seconds += result.ranks[i].busy * result.members[i];
    ranks += result.members[i];
  }
  return seconds / ranks;
}

Schedule steps_of(const std::vector<Rank>& ranks, const Make& make) {
  const PartialBuild build(ranks);
  return make();
}

}  // namespace

Spent& Spent::operator-=(const Spent& other) {
  for (const auto part : spent_seconds) this->*part -= other.*part;
  return *this;
}

Spent& Spent::operator/=(int count) {
  for (const auto part : spent_seconds) this->*part /= count;
  return *this;
}

void busiest_first(const Network& network, std::vector<LinkCounts>& links) {
  const auto needed = [&](const LinkCounts& link) { return link.bytes / network.bandwidth[at(link.link)]; };
  std::stable_sort(links.begin(), links.end(),
                   [&](const LinkCounts& a, const LinkCounts& b) { return needed(a) > needed(b); });
}

Result simulate(const Schedule& schedule, const Network& network, const Workload& workload,
                const Limits& limits) {
  Quotient quotient = everybody(network);
  return run(schedule, network, workload, quotient, false, limits);
}

std::map<int, int> queue_pairs_by_adapter(const Network& network, const std::vector<int>& by_rank,
                                          const std::vector<RankCounts>& counts) {
  std::map<int, int> pairs;
  if (!network.adapter) return pairs;
  for (Rank r = 0; r < network.ranks; ++r)
    pairs[network.adapter(r)] += counts[at(by_rank[at(r)])].queue_pairs;
  return pairs;
}

double crowded(const Result& result, double crowd) {
  constexpr double turn = 1e-6;  // s of a rank that waits for a message: it yields, and another begins
  const double each = work(result) + static_cast<double>(result.spent.hops) * turn;
  return std::max(result.spent.total(), crowd * each);
}

Alike::Alike(const Make& make, const Network& network, std::uint64_t most_fifos)
    : network_(network),
      quotient_(kinds(network, make, most_fifos)),
      schedule_(steps_of(quotient_.representatives, make)) {
  assert(!network.processor.multicasts);
}

Result Alike::run(const Workload& workload, const Limits& limits) {
  return simulation::run(schedule_, network_, workload, quotient_, true, limits);
}

}  // namespace tutti::simulation
