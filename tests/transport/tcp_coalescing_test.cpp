// When short messages are held back, and how they go after all.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "bootstrap/socket.hpp"
#include "rig.hpp"
#include "transport/tcp/tcp_receiver.hpp"
#include "transport/tcp/tcp_sender.hpp"

namespace tutti::transport::testing {

namespace {

using namespace std::chrono_literals;
using tcp::LateFlush;
using tcp::TcpSender;

constexpr LateFlush::Times by_hand{1h, 1h};  // nothing happens by itself
constexpr LateFlush::Times at_once{1h, 1us};

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
  void use(const LateFlush::Times& times) {
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
  for (const auto& times : {LateFlush::Times{}, at_once}) {
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
  EXPECT_TRUE(sender_->flushed());
  expect_all();
}

TEST_F(TcpCoalescing, OfOneSenderIsNotPutOffByAnother) {
  use({.recent = 1h, .most = 1ms});
  send_many();
  send(1);
  // Another FIFO of the transport, which holds something back all the time.
  auto other_streams = std::make_shared<tcp::Streams>(1);
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
  const FileDescriptor drain(ends[1]);
  other_streams->connect(0, PrivateDescriptor(FileDescriptor(ends[0])));
  TcpSender other({2, 0}, other_streams, counters_, *late_);
  std::vector<std::byte> part(100'000);
  const Deadline deadline(10s);
  while (holds()) {
    ASSERT_FALSE(deadline.passed());
    ASSERT_TRUE(other.try_send(part.data(), 8, 1, false));
    static_cast<void>(::recv(drain.get(), part.data(), part.size(), MSG_DONTWAIT));
  }
  late_->stop();  // before `other` goes
  expect_all();
}

TEST_F(TcpCoalescing, EndsWithTheTransport) {
  use(by_hand);
  send_many();
  send(3);
  ASSERT_TRUE(holds());
  late_->stop();
  sender_->finish(Deadline(10s));
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
  try {
    while (!deadline.passed())
      if (!sender_->try_send(&byte, 1, 1, false)) sender_->progress();
    FAIL() << "sent to nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::peer_lost);
    EXPECT_EQ(error.ranks(), std::vector<Rank>{1});
  }
}

}  // namespace

}  // namespace tutti::transport::testing
