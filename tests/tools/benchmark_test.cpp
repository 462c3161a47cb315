// What tutti-perf expects of every operation: who sends what to whom, and nccl-tests' sizes and factors.
#include "perf/benchmark.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace tutti::perf {
namespace {

std::size_t covered(const std::vector<Part>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                         [](std::size_t sum, const Part& part) { return sum + part.count; });
}

/// Runs `check` for several numbers of ranks.
template <class Check>
void for_ranks(Check check) {
  for (const int ranks : {1, 2, 3, 4, 7, 8}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    check(ranks);
  }
}

class Layouts : public testing::TestWithParam<Benchmark> {};

TEST_P(Layouts, ExpectOnlyWhatSomeRankPutsIn) {
  const Benchmark& benchmark = GetParam();
  for_ranks([&](int ranks) {
    const Rank root = ranks - 1;
    for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}})
      for (Rank rank = 0; rank < ranks; ++rank) {
        const Layout mine = make_layout(benchmark.kind, elements, ranks, rank, root);
        for (const Part& part : mine.in) {
          EXPECT_LE(part.first + part.count, mine.in_elements);
          EXPECT_EQ(part.source, rank);
        }
        for (const Part& part : mine.out) {
          EXPECT_LE(part.first + part.count, mine.out_elements);
          for (Rank source = 0; source < ranks; ++source) {
            if (part.source != reduced && part.source != source) continue;
            const Layout theirs = make_layout(benchmark.kind, elements, ranks, source, root);
            const bool found = std::ranges::any_of(theirs.in, [&](const Part& candidate) {
              return candidate.block == part.block && candidate.count == part.count;
            });
            EXPECT_TRUE(found) << benchmark.name << ": rank " << rank << " expects block " << part.block
                               << " of rank " << source;
          }
        }
      }
  });
}

TEST_P(Layouts, FillTheOutputsOfThoseThatReceive) {
  const Benchmark& benchmark = GetParam();
  for_ranks([&](int ranks) {
    const Rank root = ranks / 2;
    for (Rank rank = 0; rank < ranks; ++rank) {
      const Layout layout = make_layout(benchmark.kind, 1000, ranks, rank, root);
      const bool to_root_only = benchmark.kind == Kind::reduce || benchmark.kind == Kind::gather;
      const bool alone = benchmark.kind == Kind::ping_pong && rank == ranks - 1 && ranks % 2 == 1;
      EXPECT_EQ(covered(layout.out), (to_root_only && rank != root) || alone ? 0 : layout.out_elements);
      const bool from_root_only = benchmark.kind == Kind::broadcast || benchmark.kind == Kind::scatter;
      EXPECT_EQ(covered(layout.in), from_root_only && rank != root ? 0 : layout.in_elements);
    }
  });
}

TEST_P(Layouts, KeepTheSmallerBufferInsideTheLargerInPlace) {
  const Benchmark& benchmark = GetParam();
  if (!benchmark.in_place) return;
  for_ranks([&](int ranks) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      const Layout layout = make_layout(benchmark.kind, 1000, ranks, rank, 0);
      EXPECT_LE(layout.own + std::min(layout.in_elements, layout.out_elements),
                std::max(layout.in_elements, layout.out_elements));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Perf, Layouts, testing::ValuesIn(benchmarks().begin(), benchmarks().end()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Layout, CountsAsNcclTestsDoes) {
  EXPECT_EQ(make_layout(Kind::all_reduce, 1000, 4, 1, 0).count, 1000U);
  EXPECT_EQ(make_layout(Kind::all_gather, 1000, 4, 1, 0).count, 250U);
  EXPECT_EQ(make_layout(Kind::all_gather, 1000, 4, 1, 0).own, 250U);
  EXPECT_EQ(make_layout(Kind::reduce_scatter, 1000, 4, 1, 0).count, 250U);
  EXPECT_EQ(make_layout(Kind::all_to_all, 2, 4, 1, 0).count, 1U) << "at least one element a rank";
}

TEST(Layout, OfVFormsIsUnevenWithTheSameTotal) {
  const Layout layout = make_layout(Kind::all_to_all_v, 400, 4, 2, 0);
  EXPECT_EQ(layout.in_counts, (std::vector<std::size_t>{150, 50, 150, 50}));
  EXPECT_EQ(layout.out_counts, (std::vector<std::size_t>{150, 50, 150, 50}));
  EXPECT_EQ(make_layout(Kind::all_gather_v, 300, 3, 0, 0).out_counts,
            (std::vector<std::size_t>{150, 50, 100}));
  EXPECT_EQ(make_layout(Kind::reduce_scatter_v, 300, 3, 0, 0).in_counts,
            (std::vector<std::size_t>{150, 50, 100}));
}

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Kind::all_reduce, 4), 1.5);
  for (const Kind kind :
       {Kind::reduce_scatter, Kind::all_gather, Kind::all_to_all, Kind::gather, Kind::scatter})
    EXPECT_DOUBLE_EQ(bus_factor(kind, 4), 0.75);
  for (const Kind kind : {Kind::broadcast, Kind::reduce, Kind::sendrecv})
    EXPECT_DOUBLE_EQ(bus_factor(kind, 4), 1);
}

}  // namespace
}  // namespace tutti::perf
