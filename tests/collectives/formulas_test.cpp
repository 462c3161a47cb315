// What docs/algorithms.md says of costs beside its tables, counted in the schedules.
#include <algorithm>
#include <bit>
#include <string>

#include <gtest/gtest.h>

#include "collectives/algorithms.hpp"

namespace tutti {
namespace {

struct Cost {
  int steps = 0;          ///< longest rank, all lanes
  int messages = 0;       ///< sent, all ranks; a step that sends to several ranks sends several
  int chunks = 0;         ///< in them
  int most_messages = 0;  ///< of one rank
};

Cost cost(Collective collective, std::string_view name, int ranks) {
  const Schedule schedule = find_algorithm(collective, name)->make(ranks, 0);
  Cost total;
  for (const auto& lanes : schedule.lanes) {
    Cost rank;
    for (const Lane& lane : lanes) {
      rank.steps += static_cast<int>(lane.size());
      for (const Step& step : lane) {
        for (const Operand& sink : step.sinks) {
          if (sink.kind != Operand::Kind::message) continue;
          ++rank.messages;
          rank.chunks += sink.count;
        }
      }
    }
    total.steps = std::max(total.steps, rank.steps);
    total.messages += rank.messages;
    total.chunks += rank.chunks;
    total.most_messages = std::max(total.most_messages, rank.messages);
  }
  return total;
}

int ceil_log2(int n) { return static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1))); }

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, Doubling) {
  const int n = GetParam();
  const Cost found = cost(Collective::all_reduce, "doubling", n);
  const int players = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  const int rounds = ceil_log2(players), pairs = n - players;
  EXPECT_EQ(found.steps, rounds + 1);
  EXPECT_EQ(found.messages, players * rounds + 2 * pairs);
  EXPECT_EQ(found.most_messages, rounds + (pairs > 0 ? 1 : 0));
  EXPECT_EQ(found.chunks, found.messages);
}

TEST_P(Ranks, HalvingDoubling) {
  const int n = GetParam();
  const int rounds = ceil_log2(n);
  // A rank takes part in as many rounds as its leaf of the halving tree is deep; external path length of such
  // a tree.
  const int sent = n * rounds + n - (1 << rounds);
  const Cost all_reduce = cost(Collective::all_reduce, "halving_doubling", n);
  const Cost reduce_scatter = cost(Collective::reduce_scatter, "halving", n);
  const Cost all_gather = cost(Collective::all_gather, "doubling", n);
  EXPECT_EQ(all_reduce.messages, 2 * sent);
  EXPECT_EQ(reduce_scatter.messages, sent);
  EXPECT_EQ(all_gather.messages, sent);
  EXPECT_EQ(all_reduce.chunks, 2 * n * (n - 1));
  EXPECT_EQ(reduce_scatter.chunks, n * (n - 1));
  EXPECT_EQ(all_gather.chunks, n * (n - 1));
}

INSTANTIATE_TEST_SUITE_P(Formulas, Ranks,
                         testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 31, 32, 33, 64, 100),
                         testing::PrintToStringParamName());

/// Steps between a rank and the top of the tree.
int depth(const Schedule& schedule, int lane) {
  int deepest = 0;
  for (Rank leaf = 0; leaf < schedule.ranks; ++leaf) {
    int hops = 0;
    for (Rank rank = leaf;; ++hops) {
      const Lane& steps = schedule.lanes[static_cast<std::size_t>(rank)][static_cast<std::size_t>(lane)];
      const auto& sinks = steps.at(0).sinks;
      const auto up = std::find_if(sinks.begin(), sinks.end(), [&](const Operand& sink) {
        return sink.kind == Operand::Kind::message && sink.channel == lane;
      });
      if (up == sinks.end()) break;
      rank = up->rank;
    }
    deepest = std::max(deepest, hops);
  }
  return deepest;
}

TEST(DoubleTree, IsAsDeepAsTheLogarithmAndLeavesOfOneWorkInTheOther) {
  for (int n = 2; n <= 100; ++n) {
    const Schedule schedule = find_algorithm(Collective::all_reduce, "double_tree")->make(n, 0);
    for (const int lane : {0, 2}) EXPECT_LE(depth(schedule, lane), ceil_log2(n)) << n;
    int within_both = 0;
    for (const auto& lanes : schedule.lanes) {
      within_both += lanes[0].at(0).sources.size() > 1 && lanes[2].at(0).sources.size() > 1;
    }
    EXPECT_EQ(within_both, n % 2) << n;  // an odd number of ranks has one leaf less than it would take
  }
}

}  // namespace
}  // namespace tutti
