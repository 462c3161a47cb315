// The server of a window's memory, and who talks to it.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "bootstrap/ranks.hpp"
#include "transport/tcp/tcp_memory.hpp"
#include "transport/tcp/window_server.hpp"

namespace tutti::transport::testing {

namespace {

using bootstrap::test::thrown_by;

std::pair<FileDescriptor, FileDescriptor> connected_sockets() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::unique_ptr<tcp::TcpMemory> memory_over(FileDescriptor connection) {
  auto shared = std::make_shared<PrivateDescriptor>(std::move(connection));
  return std::make_unique<tcp::TcpMemory>(
      nullptr, 0, [shared] { return std::move(*shared); }, "a test");
}

/// Rank 0 of three, who serves the others.
class TcpWindow : public ::testing::Test {
 protected:
  static constexpr Rank world_of_rank_1 = 11, world_of_rank_2 = 12;
  std::unique_ptr<tcp::TcpMemory> reached_by(Rank world_rank) {
    auto [theirs, mine] = connected_sockets();
    inbox_->file(world_rank, 0, 0, std::move(theirs));
    std::byte verdict{};
    EXPECT_EQ(::read(mine.get(), &verdict, 1), 1);
    return memory_over(std::move(mine));
  }
  static void finish(tcp::TcpMemory& memory) {
    for (const Deadline deadline(std::chrono::seconds(20)); memory.done() < memory.started();) {
      ASSERT_FALSE(deadline.passed());
      memory.wait(std::chrono::milliseconds(100));
    }
  }

  std::shared_ptr<tcp::Inbox> inbox_ = std::make_shared<tcp::Inbox>();
};

TEST_F(TcpWindow, OutOfMemoryOnePeerIsLostAndTheOthersAreServed) {
  tcp::Served served;
  served.notifications = 1;
  std::atomic<int> counted{0};
  served.notify = [&](std::uint32_t, Rank from) {
    if (from == 1) throw std::bad_alloc();
    ++counted;
  };
  const tcp::WindowServer server(served, 0, {10, world_of_rank_1, world_of_rank_2}, inbox_);
  const auto unlucky = reached_by(world_of_rank_1), other = reached_by(world_of_rank_2);
  unlucky->notify(0);
  EXPECT_EQ(thrown_by([&] { finish(*unlucky); }).code, ErrorCode::peer_lost);
  other->notify(0);
  finish(*other);
  EXPECT_EQ(counted, 1);
}

}  // namespace

}  // namespace tutti::transport::testing
