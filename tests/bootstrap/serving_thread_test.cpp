#include "base/serving_thread.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <new>

namespace tutti::bootstrap::test {
namespace {

TEST(ServingThread, WhatARoundThrowsEndsThatRoundOnly) {
  std::promise<void> third;
  int rounds = 0;
  ServingThread thread;
  thread.start([&] {
    if (++rounds < 3) throw std::bad_alloc();
    if (rounds == 3) third.set_value();
    pollfd stop = thread.stop();
    ::poll(&stop, 1, -1);
  });
  EXPECT_EQ(third.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(ServingThread, NeedNotBeStarted) { const ServingThread thread; }

}  // namespace
}  // namespace tutti::bootstrap::test
