// What algorithms cost, counted in their schedules and compared with the closed forms of docs/algorithms.md.
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
  int most_chunks = 0;
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
    total.most_chunks = std::max(total.most_chunks, rank.chunks);
  }
  return total;
}

int ceil_log2(int n) { return static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1))); }

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, RingAllReduce) {
  const int n = GetParam();
  const Cost found = cost(Collective::all_reduce, "ring", n);
  EXPECT_EQ(found.steps, 2 * n - 1);
  EXPECT_EQ(found.most_messages, 2 * (n - 1));
  EXPECT_EQ(found.most_chunks, 2 * (n - 1));
  EXPECT_EQ(found.messages, n * 2 * (n - 1));
}

TEST_P(Ranks, RingReduceScatterAndAllGather) {
  const int n = GetParam();
  for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather}) {
    const Cost found = cost(collective, "ring", n);
    EXPECT_EQ(found.steps, n);
    EXPECT_EQ(found.most_messages, n - 1);
    EXPECT_EQ(found.chunks, n * (n - 1));
  }
}

TEST_P(Ranks, TwoShot) {
  const int n = GetParam();
  const Cost found = cost(Collective::all_reduce, "two_shot", n);
  EXPECT_EQ(found.steps, 2 * n - 1);
  EXPECT_EQ(found.most_messages, 2 * (n - 1));
  EXPECT_EQ(found.chunks, n * 2 * (n - 1));
}

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
  if (n > 1) {
    EXPECT_EQ(all_reduce.steps, 4 * rounds);
    EXPECT_EQ(reduce_scatter.steps, 2 * rounds);
    EXPECT_EQ(all_gather.steps, 2 * rounds + 1);
  }
  if (!std::has_single_bit(static_cast<unsigned>(n))) return;
  EXPECT_EQ(all_reduce.most_messages, 2 * rounds);
  EXPECT_EQ(all_reduce.most_chunks, 2 * (n - 1));
}

TEST_P(Ranks, Trees) {
  const int n = GetParam();
  const Cost twice = cost(Collective::all_reduce, "double_tree", n);
  EXPECT_EQ(twice.messages, 4 * (n - 1));
  EXPECT_LE(twice.most_messages, 4);
  EXPECT_LE(twice.steps, 4);
  const Cost up = cost(Collective::reduce, "tree", n);
  EXPECT_EQ(up.messages, n - 1);
  EXPECT_EQ(up.steps, 1);
  const Cost down = cost(Collective::broadcast, "tree", n);
  EXPECT_EQ(down.messages, n - 1);
  EXPECT_EQ(down.most_messages, ceil_log2(n));
  const Cost chain = cost(Collective::broadcast, "chain", n);
  EXPECT_EQ(chain.messages, n - 1);
  EXPECT_EQ(chain.most_messages, n == 1 ? 0 : 1);
}

TEST_P(Ranks, Broadcast) {
  const int n = GetParam();
  const Cost found = cost(Collective::broadcast, "scatter_all_gather", n);
  EXPECT_EQ(found.messages, (n - 1) + (n - 1) * (n - 1));
  EXPECT_EQ(found.most_chunks, 2 * (n - 1));
  EXPECT_EQ(cost(Collective::broadcast, "all_pairs", n).most_chunks, n - 1);
}

TEST_P(Ranks, AllToAll) {
  const int n = GetParam();
  const Cost pairwise = cost(Collective::all_to_all, "pairwise", n);
  EXPECT_EQ(pairwise.steps, 2 * n - 1);
  EXPECT_EQ(pairwise.most_messages, n - 1);
  EXPECT_EQ(pairwise.chunks, n * (n - 1));
  EXPECT_EQ(cost(Collective::all_to_all, "exchange", n).messages, n * (n - 1));
  const Cost bruck = cost(Collective::all_to_all, "bruck", n);
  EXPECT_EQ(bruck.most_messages, ceil_log2(n));
  int bits = 0;  // block i travels one hop for every bit of i
  for (int i = 0; i < n; ++i) bits += std::popcount(static_cast<unsigned>(i));
  EXPECT_EQ(bruck.most_chunks, bits);
}

TEST_P(Ranks, Barrier) {
  const int n = GetParam();
  const Cost found = cost(Collective::barrier, "dissemination", n);
  EXPECT_EQ(found.steps, 2 * ceil_log2(n));
  EXPECT_EQ(found.most_messages, ceil_log2(n));
  EXPECT_EQ(found.chunks, 0);
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
