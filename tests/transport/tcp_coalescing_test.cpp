// When short messages are held back, and how they go after all.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "bootstrap/socket.hpp"
#include "rig.hpp"
#include "thrown.hpp"
#include "transport/tcp/tcp_receiver.hpp"
#include "transport/tcp/tcp_sender.hpp"

namespace tutti::transport::testing {

namespace {

using namespace std::chrono_literals;
using tcp::LateFlush;
using tcp::TcpSender;

// Machines have been up for longer: the first message of a sender follows none.
constexpr std::chrono::microseconds within_a_minute = 1min;
constexpr tcp::HoldTimes by_hand{within_a_minute, 1h};  // nothing happens by itself
constexpr tcp::HoldTimes at_once{within_a_minute, 1us};

/// A connection over the loopback, whose other end is a bare socket.
class TcpCoalescing : public ::testing::Test {
 protected:
  TcpCoalescing() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const general = reinterpret_cast<sockaddr*>(&address);
    const auto stream = [] { return FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); };
    const FileDescriptor listener = stream();
    PrivateDescriptor ours(stream());
    if (::bind(listener.get(), general, size) != 0 || ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), general, &size) != 0 || ::connect(ours.get(), general, size) != 0)
      throw Violation("loopback");
    bootstrap::tune(ours.get());
    theirs_ = FileDescriptor(::accept(listener.get(), nullptr, nullptr));
    const timeval patience{10, 0};
    ::setsockopt(theirs_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    streams_->connect(0, std::move(ours));
  }
  void use(const tcp::HoldTimes& times) {
    late_ = std::make_unique<LateFlush>(times);
    sender_ = std::make_unique<TcpSender>(tcp::FifoName{1, 0}, streams_, counters_, *late_);
  }
  ~TcpCoalescing() override {
    if (late_) late_->stop();
  }
  TcpCoalescing(const TcpCoalescing&) = delete;
  TcpCoalescing& operator=(const TcpCoalescing&) = delete;

  void send(std::size_t times, std::size_t bytes = 8) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < times; ++i) {
      fill(data, sent_.size());
      ASSERT_TRUE(sender_->try_send(data.data(), bytes, 1, true));
      sent_.push_back(bytes);
      if (holds()) scribble(data);  // then it is the caller's again
    }
  }
  /// Until the next short message is held back.
  void send_many() { send(TcpSender::held_from + 1); }
  /// One more FIFO of the transport.
  struct Other {
    FileDescriptor theirs;
    std::shared_ptr<tcp::Streams> streams = std::make_shared<tcp::Streams>(1);
    std::unique_ptr<TcpSender> sender;
  };
  Other& add() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw Violation("socketpair");
    const timeval patience{10, 0};
    ::setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    Other& other = others_.emplace_back();
    other.streams->connect(0, PrivateDescriptor(FileDescriptor(ends[0])));
    other.theirs = FileDescriptor(ends[1]);
    other.sender = std::make_unique<TcpSender>(tcp::FifoName{2, 0}, other.streams, counters_, *late_);
    return other;
  }
  /// Message of the peer.
  void receive() {
    const tcp::Frame frame{.tag = 2, .sequence = received_++};
    ASSERT_EQ(::send(theirs_.get(), &frame, tcp::frame_content, 0), static_cast<ssize_t>(tcp::frame_content));
    const Deadline deadline(10s);
    while (!receiver_.try_receive(nullptr, 0, 2)) ASSERT_FALSE(deadline.passed());
  }
  [[nodiscard]] bool holds() {
    const auto locked = late_->lock();
    return sender_->holds();
  }
  /// All that was sent arrives, in order.
  void expect_all() {
    std::vector<std::byte> payload;
    for (std::uint32_t sequence = 0; sequence < sent_.size(); ++sequence) {
      const std::size_t bytes = sent_[sequence];
      tcp::Frame frame;
      ASSERT_EQ(::recv(theirs_.get(), &frame, tcp::header_of(bytes), MSG_WAITALL),
                static_cast<ssize_t>(tcp::header_of(bytes)));
      ASSERT_EQ(frame.sequence, sequence);
      ASSERT_EQ(frame.bytes, bytes);
      payload.resize(bytes);
      ASSERT_EQ(::recv(theirs_.get(), payload.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
      require_filled(payload, sequence, "message " + std::to_string(sequence));
    }
  }

  FileDescriptor theirs_;
  std::shared_ptr<tcp::Streams> streams_ = std::make_shared<tcp::Streams>(1);
  tcp::Inbox inbox_;
  tcp::Counters counters_;
  std::unique_ptr<LateFlush> late_;
  std::unique_ptr<TcpSender> sender_;
  std::list<Other> others_;
  tcp::TcpReceiver receiver_{{1, 0}, 1, streams_, inbox_, counters_};
  std::vector<std::size_t> sent_;
  std::uint32_t received_ = 0;
};

TEST_F(TcpCoalescing, OfShortMessagesOfWhoOnlySends) {
  use(by_hand);
  send_many();
  EXPECT_FALSE(holds());
  send(1);
  EXPECT_TRUE(holds());
  EXPECT_TRUE(sender_->flushed()) << "LateFlush has it";
  send(1, TcpSender::longest_held + 1);
  EXPECT_FALSE(holds());
  send(2, TcpSender::longest_held);
  EXPECT_TRUE(holds());
  sender_->progress();
  EXPECT_FALSE(holds());
  expect_all();
}

TEST_F(TcpCoalescing, EndsWhereAMessageComes) {
  use(by_hand);
  for (int round = 0; round < 3; ++round) {
    send_many();
    receive();
    send(1);
    EXPECT_FALSE(holds());
  }
  expect_all();
}

TEST_F(TcpCoalescing, IsOfMessagesThatFollowEachOtherSoon) {
  use({.recent = 0us, .most = 1h});
  send_many();
  send(10);
  EXPECT_FALSE(holds());
}

TEST_F(TcpCoalescing, HasLimits) {
  use(by_hand);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, TcpSender::longest_held / 2}) {
    receive();
    send_many();
    std::size_t held = 0;
    for (send(1, bytes); holds(); send(1, bytes)) held += tcp::header_of(bytes) + bytes;
    EXPECT_GT(held, bytes);
    EXPECT_LE(held, TcpSender::held_most);
    EXPECT_TRUE(sender_->flushed()) << "the kernel has all";
  }
  expect_all();
}

TEST_F(TcpCoalescing, NeedsNoLaterCall) {
  for (const auto& times : {tcp::HoldTimes{}, at_once}) {
    sender_.reset();
    sent_.clear();
    use(times);
    send(1000);
    EXPECT_TRUE(sender_->flushed());
    expect_all();
    late_->stop();
  }
}

TEST_F(TcpCoalescing, SendsWhatTheKernelDoesNotTakeWhenItDoes) {
  use(at_once);
  const int small = 4096;
  ::setsockopt(streams_->fd(0), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  ::setsockopt(theirs_.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  send_many();
  send(2, TcpSender::longest_held);  // more than these buffers take
  sender_->progress();               // its rank waits for another one, and will not come again
  EXPECT_TRUE(sender_->flushed());
  expect_all();
}

TEST_F(TcpCoalescing, OfOneSenderIsNotPutOffByAnother) {
  use({.recent = within_a_minute, .most = 1ms});
  send_many();
  send(1);
  const Other& other = add();  // holds something back all the time
  std::vector<std::byte> part(100'000);
  const Deadline deadline(10s);
  while (holds()) {
    ASSERT_FALSE(deadline.passed());
    ASSERT_TRUE(other.sender->try_send(part.data(), 8, 1, false));
    static_cast<void>(::recv(other.theirs.get(), part.data(), part.size(), MSG_DONTWAIT));
  }
  expect_all();
}

TEST_F(TcpCoalescing, OfOneSenderGoesThoughThePeerOfAnotherDoesNotRead) {
  use(at_once);
  send_many();
  const Other& stuck = add();
  const int small = 4096;
  ::setsockopt(stuck.streams->fd(0), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  std::vector<std::byte> data(TcpSender::longest_held);
  ASSERT_TRUE(stuck.sender->try_send(data.data(), 8, 1, false));
  ASSERT_TRUE(stuck.sender->try_send(data.data(), data.size(), 1, false));
  const auto takes_more = [&] {
    pollfd one{stuck.streams->fd(0), POLLOUT, 0};
    return ::poll(&one, 1, 0) != 0;
  };
  for (const Deadline deadline(10s); takes_more();) ASSERT_FALSE(deadline.passed());
  const Other& other = add();
  constexpr std::size_t sent = 3;
  for (std::size_t i = 0; i < sent; ++i) ASSERT_TRUE(other.sender->try_send(data.data(), 8, 1, false));
  constexpr std::size_t bytes = sent * (tcp::header_of(8) + 8);
  EXPECT_EQ(::recv(other.theirs.get(), data.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
}

TEST_F(TcpCoalescing, EndsWithTheTransport) {
  use(by_hand);
  send_many();
  send(3);
  ASSERT_TRUE(holds());
  late_->stop();
  tcp::finish({&sender_, 1}, Deadline(10s));
  expect_all();
}

TEST_F(TcpCoalescing, NeedsAThreadThatSeesToIt) {
  use(by_hand);
  late_->stop();
  send_many();
  send(1);
  EXPECT_FALSE(holds());
  expect_all();
}

TEST_F(TcpCoalescing, ALossIsTheNextCallsToTell) {
  use(at_once);
  send_many();
  const linger reset{1, 0};
  ::setsockopt(theirs_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  theirs_.reset();
  const std::byte byte{};
  const Deadline deadline(10s);
  const auto error = test::thrown_by([&] {
    while (!deadline.passed())
      if (!sender_->try_send(&byte, 1, 1, false)) sender_->progress();
  });
  EXPECT_EQ(error.code, ErrorCode::peer_lost);
  EXPECT_EQ(error.ranks, std::vector<Rank>{1});
}

}  // namespace

}  // namespace tutti::transport::testing
