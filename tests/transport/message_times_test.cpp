// What senders of a host tell each other about the two ways of long messages.
#include "transport/shm/message_times.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace tutti::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using transport::shm::Arena;
using transport::shm::MessageTimes;

PathTrial::Times times(std::uint32_t slots, std::uint32_t direct) {
  PathTrial::Times times{};
  times[index_of(Path::slots)] = {slots, slots + 1};
  times[index_of(Path::direct)] = {direct, direct + 1};
  return times;
}

TEST(MessageTimes, OthersHearWhatARankFound) {
  const auto arena = Arena::create(3);
  MessageTimes first(*arena, 0), second(*arena, 1), third(*arena, 2);
  const auto begin = Clock::now();
  EXPECT_THAT(first.of_others(4, begin), IsEmpty());
  second.tell(4, times(10, 20));
  third.tell(4, times(30, 40));
  first.tell(4, times(50, 60));
  EXPECT_THAT(first.of_others(4, begin), ElementsAre(times(10, 20), times(30, 40)));
  EXPECT_THAT(second.of_others(4, begin), ElementsAre(times(50, 60), times(30, 40)));
  EXPECT_THAT(first.of_others(5, begin), IsEmpty()) << "of other lengths";
  second.tell(4, times(70, 80));
  EXPECT_THAT(third.of_others(4, begin), ElementsAre(times(50, 60), times(70, 80))) << "the latest count";
}

TEST(MessageTimes, OfATrialThatIsNotThroughNothingIsTold) {
  const auto arena = Arena::create(2);
  MessageTimes first(*arena, 0), second(*arena, 1);
  const auto begin = Clock::now();
  PathTrial::Times half = times(10, 20);
  half[index_of(Path::direct)][1] = 0;
  second.tell(4, half);
  EXPECT_THAT(first.of_others(4, begin), IsEmpty());
}

// Who sent long ago might find something else now.
TEST(MessageTimes, WhatWasToldBeforeDoesNotCount) {
  const auto arena = Arena::create(2);
  MessageTimes first(*arena, 0), second(*arena, 1);
  second.tell(4, times(10, 20));
  const auto later = Clock::now() + std::chrono::hours(1);
  EXPECT_THAT(first.of_others(4, later), IsEmpty());
}

}  // namespace
}  // namespace tutti::test
