// Builders that write some ranks' steps only.
#include <vector>

#include <gtest/gtest.h>

#include "collectives/algorithms.hpp"
#include "collectives/partial_build.hpp"

namespace tutti {
namespace {

constexpr int node_size = 3;

int period_of(const Algorithm& algorithm, int ranks) {
  const PartialBuild build([](Rank, int, const Step&) {});
  (void)algorithm.make(ranks, 0, node_size);
  return build.period();
}

std::vector<Lane> used(const std::vector<Lane>& lanes) {
  std::vector<Lane> some;
  for (const Lane& lane : lanes)
    if (!lane.empty()) some.push_back(lane);
  return some;
}

TEST(PartialBuild, HoldsTheStepsThatAreWanted) {
  for (const Algorithm& algorithm : algorithms()) {
    const Schedule all = algorithm.make(12, 0, node_size);
    const PartialBuild build(std::vector<Rank>{2, 7});
    const Schedule some = algorithm.make(12, 0, node_size);
    for (Rank rank = 0; rank < 12; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      const bool wanted = rank == 2 || rank == 7;
      EXPECT_EQ(used(some.lanes[at]), wanted ? used(all.lanes[at]) : std::vector<Lane>{})
          << name(algorithm.collective) << " " << algorithm.name << ", rank " << rank;
    }
  }
}

TEST(PartialBuild, TellsEveryStepOnceInTheOrderOfItsLane) {
  constexpr int ranks = 11;
  for (const Algorithm& algorithm : algorithms()) {
    const Schedule all = algorithm.make(ranks, 4, node_size);
    std::vector<std::vector<Lane>> told(ranks, std::vector<Lane>(max_lanes));
    {
      const PartialBuild build([&](Rank rank, int lane, const Step& step) {
        told[static_cast<std::size_t>(rank)][static_cast<std::size_t>(lane)].push_back(step);
      });
      (void)algorithm.make(ranks, 4, node_size);
      if (build.period() != 0) continue;  // the others do as the first ones
    }
    for (std::size_t rank = 0; rank < told.size(); ++rank)
      EXPECT_EQ(used(told[rank]), used(all.lanes[rank]))
          << name(algorithm.collective) << " " << algorithm.name << ", rank " << rank;
  }
}

// Peers counted on, chunks left out: these may be others.
std::vector<Lane> turned(std::vector<Lane> lanes, int by, int ranks) {
  for (Lane& lane : lanes)
    for (Step& step : lane)
      for (auto* operands : {&step.sources, &step.sinks})
        for (Operand& o : *operands) {
          if (o.rank >= 0) o.rank = (o.rank + by) % ranks;
          o.first = 0;
        }
  return lanes;
}

TEST(PartialBuild, PeriodsArePromisesKept) {
  int with_period = 0;
  for (const Algorithm& algorithm : algorithms()) {
    for (const int ranks : {3, 6, 12, 15}) {
      const int period = period_of(algorithm, ranks);
      if (period == 0) continue;
      ++with_period;
      const auto lanes = algorithm.make(ranks, 0, node_size).lanes;
      for (Rank rank = period; rank < ranks; ++rank)
        EXPECT_EQ(turned(lanes[static_cast<std::size_t>(rank)], 0, ranks),
                  turned(lanes[static_cast<std::size_t>(rank % period)], rank / period * period, ranks))
            << name(algorithm.collective) << " " << algorithm.name << ", rank " << rank << " of " << ranks;
    }
    // The last node is smaller: a grid then has ranks for nodes.
    EXPECT_EQ(period_of(algorithm, 11), algorithm.name == "grid" ? 1 : 0) << algorithm.name;
  }
  EXPECT_EQ(with_period, 4 * 4 + 4);  // hierarchical, of four collectives; grid
}

}  // namespace
}  // namespace tutti
