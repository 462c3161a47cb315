// When short messages wait for each other in the kernel, and when what came is acknowledged at once.
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "bootstrap/socket.hpp"
#include "rig.hpp"
#include "transport/tcp/tcp_receiver.hpp"
#include "transport/tcp/tcp_sender.hpp"

namespace tutti::transport::testing {

namespace {

using namespace std::chrono_literals;

struct Connection {
  PrivateDescriptor ours;
  FileDescriptor theirs;
};
Connection over_loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  PrivateDescriptor ours(FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  if (::bind(listener.get(), general, size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), general, &size) != 0 || ::connect(ours.get(), general, size) != 0)
    throw Violation("loopback");
  bootstrap::tune(ours.get());
  return {std::move(ours), FileDescriptor(::accept(listener.get(), nullptr, nullptr))};
}

std::shared_ptr<tcp::Streams> streams_of(PrivateDescriptor socket) {
  auto streams = std::make_shared<tcp::Streams>(1);
  streams->connect(0, std::move(socket));
  return streams;
}

/// Both directions of a connection, and its other end.
class TcpGathering : public ::testing::Test {
 protected:
  [[nodiscard]] int option(int name) const {
    int value = -1;
    socklen_t size = sizeof value;
    ::getsockopt(streams_->fd(0), IPPROTO_TCP, name, &value, &size);
    return value;
  }
  [[nodiscard]] bool gathers() const { return option(TCP_NODELAY) == 0; }
  void send(int times, std::size_t bytes = 8) {
    const std::vector<std::byte> data(bytes);
    for (int i = 0; i < times; ++i) ASSERT_TRUE(sender_.try_send(data.data(), bytes, 1, true));
    sent_ += static_cast<std::size_t>(times) * (tcp::header_of(bytes) + bytes);
  }
  void receive() {
    const tcp::Frame frame{.tag = 2, .sequence = received_++};
    ASSERT_EQ(::send(theirs_, &frame, tcp::frame_content, 0), static_cast<ssize_t>(tcp::frame_content));
    pollfd arrival{streams_->fd(0), POLLIN, 0};
    ASSERT_EQ(::poll(&arrival, 1, 10'000), 1);
    ASSERT_TRUE(receiver_.try_receive(nullptr, 0, 2));
  }
  /// As the system does by itself when answers follow questions.
  void hold_acknowledgements() const {
    const int off = 0;
    ::setsockopt(streams_->fd(0), IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
    ASSERT_FALSE(acknowledges());
  }
  [[nodiscard]] bool acknowledges() const { return option(TCP_QUICKACK) == 1; }

  Connection connection_ = over_loopback();
  int theirs_ = connection_.theirs.get();
  std::shared_ptr<tcp::Streams> streams_ = streams_of(std::move(connection_.ours));
  tcp::Inbox inbox_;
  tcp::Counters counters_;
  tcp::TcpSender sender_{{1, 0}, streams_, counters_};
  tcp::TcpReceiver receiver_{{1, 0}, 1, streams_, inbox_, counters_};
  std::size_t sent_ = 0;
  std::uint32_t received_ = 0;
};

TEST_F(TcpGathering, OfShortMessagesWhenNothingComes) {
  send(16);
  EXPECT_FALSE(gathers());
  send(1);
  EXPECT_TRUE(gathers());
  send(1, 1000);
  EXPECT_FALSE(gathers());
  send(1);
  EXPECT_TRUE(gathers());
  receive();
  send(1);
  EXPECT_FALSE(gathers());
}

TEST_F(TcpGathering, LosesNothingAndNeedsNoLaterCall) {
  send(1000);
  ASSERT_TRUE(gathers());
  ASSERT_TRUE(sender_.flushed());
  std::vector<std::byte> into(sent_);
  EXPECT_EQ(::recv(theirs_, into.data(), into.size(), MSG_WAITALL), static_cast<ssize_t>(sent_));
  std::uint32_t sequence = 0;
  for (std::size_t at = 0; at < sent_; at += tcp::frame_content + 8, ++sequence) {
    std::uint32_t found = 0;
    std::memcpy(&found, into.data() + at + offsetof(tcp::Frame, sequence), sizeof found);
    ASSERT_EQ(found, sequence);
  }
}

TEST_F(TcpGathering, IsNotKeptWaitingByWhoOnlyReceives) {
  receive();
  hold_acknowledgements();
  receive();
  EXPECT_TRUE(acknowledges());
}

TEST_F(TcpGathering, IsAnsweredByWhoAnswers) {
  std::chrono::steady_clock::duration took{};
  do {  // the system acknowledges by itself after 40 ms
    const auto start = std::chrono::steady_clock::now();
    send(1);
    hold_acknowledgements();
    receive();
    const bool at_once = acknowledges();
    took = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(!at_once || took > 20ms);
  } while (took > 20ms);
}

TEST_F(TcpGathering, IsNotKeptWaitingByWhoSleeps) {
  receive();
  send(1);
  hold_acknowledgements();
  receiver_.acknowledge();
  EXPECT_TRUE(acknowledges());
}

// As in an all_to_all of many ranks, which send to all before they receive.
TEST_F(TcpGathering, IsNotOfWhoGetsAnswersFromThisPeer) {
  for (int round = 0; round < 20; ++round) {
    counters_.sent_in_a_row = 100;
    send(1);
    ASSERT_FALSE(gathers());
    receive();
  }
}

TEST_F(TcpGathering, IsNotOfWhoGetsMessagesFromOthers) {
  for (int round = 0; round < 40; ++round) {
    counters_.sent_in_a_row = 0;
    send(1);
    ASSERT_FALSE(gathers());
  }
}

TEST_F(TcpGathering, IsNotKeptWaitingByWhoWaits) {
  receive();
  send(1);
  hold_acknowledgements();
  for (int look = 0; look < 1000; ++look) ASSERT_FALSE(receiver_.try_receive(nullptr, 0, 2));
  EXPECT_TRUE(acknowledges());
}

}  // namespace

}  // namespace tutti::transport::testing
