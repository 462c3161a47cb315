// A rank of this host that ends while others talk to it.
#include <gtest/gtest.h>

#include <vector>

#include "bootstrap/ranks.hpp"
#include "transport/shm/descriptor.hpp"

namespace tutti::transport::shm {
namespace {

using test::thrown_by;

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
