#include "base/processors.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

/// sched_getaffinity on a machine that could have `possible` processors: it takes no smaller set.
auto machine_of(std::size_t possible, const std::vector<std::size_t>& allowed) {
  return [=](std::size_t bytes, cpu_set_t* set) {
    if (bytes * 8 < possible) {
      errno = EINVAL;
      return -1;
    }
    std::memset(set, 0, bytes);
    for (const std::size_t i : allowed) CPU_SET(i % CPU_SETSIZE, &set[i / CPU_SETSIZE]);
    return 0;
  };
}

TEST(Processors, MayBeMoreThanAFixedSetHolds) {
  EXPECT_THAT(processors_by(machine_of(4, {0, 3})), testing::ElementsAre(0, 3));
  EXPECT_THAT(processors_by(machine_of(8192, {1, 1023, 1024, 8191})),
              testing::ElementsAre(1, 1023, 1024, 8191));
}

TEST(Processors, AreNoneWhereTheSystemDoesNotSay) {
  EXPECT_TRUE(processors_by([](std::size_t /*bytes*/, cpu_set_t* /*set*/) {
                errno = EPERM;
                return -1;
              }).empty());
  EXPECT_EQ(errno, EPERM);
  EXPECT_TRUE(processors_by(machine_of(std::size_t{1} << 30U, {})).empty());
  EXPECT_EQ(errno, EINVAL);
}

TEST(Processors, OfSeveralRanksAreCountedOnceEach) {
  EXPECT_EQ(count_all({}), 0);
  EXPECT_EQ(count_all({bits_of({})}), 0);
  EXPECT_EQ(count_all({bits_of({0, 7, 8}), bits_of({7, 9})}), 4);
  EXPECT_EQ(count_all({bits_of({5}), bits_of({5 + 1024}), bits_of({5 + 2048, 8191})}), 4);
}

TEST(Processors, OfAThreadAreThoseThatItIsBoundTo) {
  const std::vector<int> all = allowed_processors();
  ASSERT_FALSE(all.empty());
  std::vector<int> one;
  std::thread([&] {
    if (run_on({all.back()})) one = allowed_processors();
  }).join();
  EXPECT_THAT(one, testing::ElementsAre(all.back()));
  EXPECT_EQ(allowed_processors(), all);
}

}  // namespace
}  // namespace tutti
