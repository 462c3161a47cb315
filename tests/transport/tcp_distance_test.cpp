// Ranks far from each other: what one sends takes long to arrive, and so does its hanging up.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <span>
#include <thread>
#include <vector>

#include "bootstrap/socket.hpp"
#include "tcp_ranks.hpp"

namespace tutti::transport::testing {

namespace {

/// One direction of a connection; an empty piece is its end.
struct Piece {
  Clock::time_point due;
  std::vector<std::byte> bytes;
};

/// Stands before a listener and takes one connection to it, whose bytes need `delay` in each direction.
class LongWay {
 public:
  LongWay(std::uint16_t to, std::chrono::milliseconds delay) : delay_(delay) {
    thread_ = std::jthread([this, to](const std::stop_token& stop) { run(to, stop); });
  }
  [[nodiscard]] std::uint16_t port() const { return bootstrap::local_endpoint(listener_.get()).port; }

 private:
  void run(std::uint16_t to, const std::stop_token& stop) {
    constexpr std::chrono::milliseconds round(5);
    while (!stop.stop_requested() && !bootstrap::wait_for(listener_.get(), POLLIN, Deadline(round))) continue;
    const auto near = bootstrap::accept_from(listener_.get());
    const auto far = bootstrap::try_connect({"127.0.0.1", to}, Deadline(std::chrono::seconds(5)));
    if (!near || !far) return;
    std::array<std::deque<Piece>, 2> under_way;
    for (; !stop.stop_requested(); ::poll(nullptr, 0, 1)) {
      carry(near.get(), far->get(), under_way[0]);
      carry(far->get(), near.get(), under_way[1]);
    }
  }
  void carry(int from, int to, std::deque<Piece>& under_way) const {
    std::array<std::byte, 4096> bytes{};
    const bool ended = !under_way.empty() && under_way.back().bytes.empty();
    const auto got = ended ? 0 : bootstrap::receive_some(from, bytes);
    const std::size_t count = got.value_or(0);
    if (count > 0 || !got)
      under_way.push_back(
          {Clock::now() + delay_, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)}});
    while (!under_way.empty() && under_way.front().due <= Clock::now()) {
      if (under_way.front().bytes.empty()) {
        ::shutdown(to, SHUT_WR);
        return;  // and stays the last
      }
      EXPECT_EQ(bootstrap::send_some(to, under_way.front().bytes), under_way.front().bytes.size());
      under_way.pop_front();
    }
  }

  std::chrono::milliseconds delay_;
  FileDescriptor listener_ = bootstrap::listen_at({"127.0.0.1", 0});
  std::jthread thread_;
};

// The listener files a connection when the claim has arrived, which is long before its rank hears so.
TEST(TcpDistance, AConnectionThatIsFiledIsNotGivenUp) {
  const auto listeners = listeners_at("127.0.0.1", 2);
  const LongWay to_zero(listeners[0]->port(), std::chrono::milliseconds(200));
  auto groups = local_groups(2);
  const auto gather = groups[1].all_gather;
  groups[1].all_gather = [&](std::span<const std::byte> mine) {
    auto all = gather(mine);
    const auto port = to_zero.port();
    std::memcpy(all[0].data() + sizeof(std::size_t), &port, sizeof port);
    return all;
  };
  const auto ranks = tcp_over(listeners, groups);
  std::jthread sends([&] {
    const std::byte byte{7};
    EXPECT_NO_THROW(EXPECT_TRUE(ranks[1]->sender(0, 0).try_send(&byte, 1, 5, false)));
  });
  std::byte byte{};
  for (const Deadline deadline(std::chrono::seconds(20));
       !ranks[0]->receiver(1, 0).try_receive(&byte, 1, 5);) {
    ASSERT_FALSE(deadline.passed());
    ranks[0]->wait(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(byte, std::byte{7});
}

}  // namespace

}  // namespace tutti::transport::testing
