// When a thread that waits yields, and when it had better sleep.
#include "base/yield.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace tutti {
namespace {

using namespace std::chrono_literals;

// From when on a thread yields again after a yield at `now` went to another program.
Clock::duration asleep_after(Clock::time_point now) {
  avoid_yields(now);
  auto wait = 0ms;
  while (!yield_processor(now + wait) && wait < 1s) wait += 1ms;
  return wait;
}

void sleeps_longer_and_forgets() {
  Clock::time_point now = Clock::now();
  const auto first = asleep_after(now);
  EXPECT_GT(first, 0ms);
  auto before = first;
  for (int i = 0; i < 10; ++i) {
    now += 200ms;
    const auto longer = asleep_after(now);
    EXPECT_GE(longer, before);
    EXPECT_LE(longer, 2 * before);
    before = longer;
  }
  EXPECT_GT(before, 4 * first);
  EXPECT_LT(before, 100ms);
  now += 1s;  // in the future: these yields come back before they began, however busy the machine is
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(yield_processor(now));
  EXPECT_EQ(asleep_after(now), first);
}

TEST(Yield, SleepsLongerWhileYieldsGoElsewhereAndForgetsIt) {
  std::jthread(sleeps_longer_and_forgets).join();  // each thread has its own memory of this
}

}  // namespace
}  // namespace tutti
