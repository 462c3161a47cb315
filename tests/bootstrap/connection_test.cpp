#include "bootstrap/connection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <new>
#include <span>
#include <vector>

namespace tutti::bootstrap::test {
namespace {

using testing::ElementsAre;

// No news is lost, none comes twice, and what follows is read where it begins.
TEST(Connection, WhatThereWasNoMemoryToTakeComesAgain) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()), 0);
  constexpr std::size_t longest = 1 << 10;
  Connection from(FileDescriptor{pair[0]}, longest, longest);
  Connection to(FileDescriptor{pair[1]}, longest, longest);
  for (const FrameKind kind : {FrameKind::welcome, FrameKind::who, FrameKind::goodbye})
    EXPECT_TRUE(from.send(make_frame(kind)));
  EXPECT_TRUE(from.flush());
  std::vector<FrameKind> taken;
  bool memory = false;
  const auto take = [&](FrameKind kind, std::span<const std::byte>) {
    if (kind == FrameKind::who && !memory) throw std::bad_alloc();
    taken.push_back(kind);
  };
  EXPECT_THROW(to.receive(take), std::bad_alloc);
  memory = true;
  EXPECT_TRUE(to.receive(take));
  EXPECT_THAT(taken, ElementsAre(FrameKind::welcome, FrameKind::who, FrameKind::goodbye));
}

}  // namespace
}  // namespace tutti::bootstrap::test
