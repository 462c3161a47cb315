#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "../../bench/peers/cores.hpp"
#include "../../bench/peers/memory.hpp"

namespace {

TEST(Cores, AreThoseThatRanksAreBoundToOrAll) {
  EXPECT_EQ(bench::cores_in_use({0, 1}), 2);
  EXPECT_EQ(bench::cores_in_use({5}), 1);
  EXPECT_EQ(bench::cores_in_use({}), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(Cores, OfAThreadAreThoseItMayRunOn) {
  const int last = bench::allowed_cores().back();
  std::vector<int> found;
  std::thread([&] {
    bench::pin(0, {last});
    found = bench::allowed_cores();
  }).join();
  EXPECT_EQ(found, std::vector<int>{last});
}

TEST(Memory, OfNothingIsAPage) {
  const bench::Memory none(0), some(4097);
  EXPECT_EQ(none.bytes(), 4096U);
  EXPECT_EQ(some.bytes(), 8192U);
}

}  // namespace
