// When a thread that waits yields, and when it had better sleep.
#include "base/yield.hpp"

#include <thread>

#include <gtest/gtest.h>

#include "base/about_now.hpp"

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

void works_but_when_away() {
  const Clock::time_point now = Clock::now();
  EXPECT_EQ(take_work(now), 0ms);
  EXPECT_EQ(take_work(now + 5ms), 5ms);
  EXPECT_EQ(take_work(now + 5ms), 0ms);
  ASSERT_TRUE(yield_processor(Clock::now()));
  const Clock::time_point after = Clock::now();
  std::this_thread::sleep_until(after + 20ms);  // as if it worked
  const auto worked = take_work(after + 20ms);
  EXPECT_GE(worked, 20ms);
  EXPECT_LE(worked, after - now + 20ms);
}

TEST(Yield, WorkIsWhatLiesBetweenThem) { std::jthread(works_but_when_away).join(); }

void stays_by_the_clock() {
  const auto close = [] {
    const auto before = Clock::now();
    const auto about = about_now();
    const auto after = Clock::now();
    EXPECT_GE(about, before - 200us);
    EXPECT_LE(about, after + 200us);
  };
  close();
  for (const auto pause : {0us, 10us, 300us, 1000us, 5000us})
    for (int i = 0; i < 20; ++i) {
      const auto until = Clock::now() + pause;
      if (i % 2 == 0) std::this_thread::sleep_until(until);
      while (Clock::now() < until) {
      }
      close();
    }
}

TEST(AboutNow, StaysByTheClock) {
  std::jthread first(stays_by_the_clock);
  std::jthread second(stays_by_the_clock);
}

}  // namespace
}  // namespace tutti
