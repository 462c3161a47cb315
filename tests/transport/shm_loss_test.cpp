// A rank of this host that ends while others read its memory, or pass it theirs.
#include <gtest/gtest.h>

#include <cstdlib>

#include "bootstrap/ranks.hpp"
#include "transport/shm/descriptor.hpp"
#include "transport/shm/direct_memory.hpp"

namespace tutti::transport::shm {
namespace {

using bootstrap::test::Child;
using bootstrap::test::thrown_by;

TEST(ShmLoss, WhoseMemoryCannotBeReadAnyMoreIsLost) {
  Child child([] { return EXIT_SUCCESS; });
  const pid_t process = child.process();
  child.wait();
  DirectMemory memory(Arena::create(2), 0, {::getpid(), process}, {0, 1}, true);
  std::byte into[8];
  const auto error = thrown_by([&] { memory.read(1, 4096, into, sizeof into); });
  EXPECT_EQ(error.code, ErrorCode::peer_lost) << error.text;
}

TEST(ShmLoss, WhatIsHeardSoonAfterwardsIsSaidInstead) {
  int asked = 0;
  const auto fails = [] { throw Error(ErrorCode::system, "a socket was closed"); };
  const auto died = [&] {
    if (++asked == 3) throw Error(ErrorCode::peer_lost, "rank 1 died", {1});
  };
  EXPECT_EQ(thrown_by([&] { talk_checking(fails, died); }).ranks, std::vector<Rank>{1});
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(thrown_by([&] { talk_checking(fails, nullptr); }).code, ErrorCode::system);
  EXPECT_EQ(thrown_by([&] { talk_checking(fails, [] {}); }).code, ErrorCode::system);
  talk_checking([] {}, died);
  EXPECT_EQ(asked, 3) << "asked although nothing went wrong";
}

}  // namespace
}  // namespace tutti::transport::shm
