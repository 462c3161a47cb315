// Calls that follow each other without a barrier.
#include <gtest/gtest.h>

#include "collectives/algorithms.hpp"
#include "simulation/host_network.hpp"
#include "simulation/simulate.hpp"

namespace tutti::simulation {
namespace {

constexpr HostCosts costs{
    .call = 1e-6, .alpha = 10e-6, .overhead = 2e-6, .step = 0.5e-6, .copy = 1e-9, .fold = 1e-9};

Result repeated(Collective collective, std::string_view algorithm, int ranks, int calls) {
  return simulate(find_algorithm(collective, algorithm)->make(ranks, 0), host_network(ranks, costs),
                  {.collective = collective, .bytes = 64, .calls = calls});
}

TEST(Calls, ThatWaitForTheirOwnMessagesTakeAsLongEach) {
  const Result one = repeated(Collective::all_reduce, "ring", 4, 1);
  const Result ten = repeated(Collective::all_reduce, "ring", 4, 10);
  EXPECT_NEAR(ten.seconds, 10 * one.seconds, 1e-12);
  EXPECT_NEAR(ten.steady.total(), one.seconds, 1e-12);
  EXPECT_GT(ten.spent.hops, 0U);
  EXPECT_EQ(ten.steady.hops, 0U) << "two paths have no difference";
  EXPECT_EQ(ten.messages, 10 * one.messages);
}

TEST(Calls, OfARootRunAheadOfTheOthers) {
  const Result one = repeated(Collective::broadcast, "all_pairs", 2, 1);
  const Result many = repeated(Collective::broadcast, "all_pairs", 2, 96);
  // 4 messages under way: the fifth goes when the first was received and its credit is back.
  const double work = costs.step + costs.overhead + 64 * costs.copy;
  const double root = work + 64 * costs.copy;  // its own output, too
  const double round_trip = root + costs.alpha + work + costs.alpha;
  EXPECT_NEAR(one.seconds, costs.call + root + costs.alpha + work, 1e-12);
  EXPECT_NEAR(many.steady.total(), round_trip / 4, 1e-12);
}

TEST(Calls, SpendWhatTheClockSays) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.one_sided || algorithm.by_nodes != nullptr) continue;
    const Result result = simulate(algorithm.make(5, 0), host_network(5, costs),
                                   {.collective = algorithm.collective, .bytes = 5000, .calls = 6});
    EXPECT_NEAR(result.spent.total(), result.seconds, 1e-12) << algorithm.name;
    EXPECT_GT(result.spent.calls, 0) << algorithm.name;
  }
}

}  // namespace
}  // namespace tutti::simulation
