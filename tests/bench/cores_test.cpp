#include "../../bench/peers/cores.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace {

TEST(Cores, AreSharedByTheRanksThatAreBoundToThem) {
  for (int size = 1; size <= 9; ++size)
    for (const auto& cores : {std::vector{0}, {0, 1}, {4, 2, 7}}) {
      std::vector<int> ranks(cores.size(), 0);
      for (int rank = 0; rank < size; ++rank) ++ranks[static_cast<std::size_t>(rank) % cores.size()];
      for (int rank = 0; rank < size; ++rank)
        EXPECT_EQ(bench::ranks_on_core(rank, size, cores),
                  ranks[static_cast<std::size_t>(rank) % cores.size()])
            << rank << " of " << size << " on " << cores.size();
    }
}

TEST(Cores, OfRanksThatAreNotBoundAreSharedAlike) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  EXPECT_EQ(bench::ranks_on_core(0, cores, {}), 1);
  EXPECT_EQ(bench::ranks_on_core(0, cores + 1, {}), 2);
  EXPECT_EQ(bench::ranks_on_core(cores, 2 * cores, {}), 2);
}

}  // namespace
