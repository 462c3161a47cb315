// Both ends of a FIFO on a socket pair, where every partial read and write can be arranged.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include <tutti/error.hpp>

#include "bootstrap/ranks.hpp"
#include "bootstrap/socket.hpp"
#include "rig.hpp"
#include "thrown.hpp"
#include "transport/tcp/tcp_receiver.hpp"
#include "transport/tcp/tcp_sender.hpp"

namespace tutti::transport::testing {

namespace {

using tcp::Frame;
using test::thrown_by;

struct SocketPair {
  FileDescriptor ours, theirs;
};
SocketPair socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    throw Violation("socketpair");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

class TcpReceiverTest : public ::testing::Test {
 protected:
  TcpReceiverTest()
      : socket_(socket_pair()),
        receiver_({4, 2}, 17, std::make_shared<tcp::Streams>(1), inbox_, counters_),
        payload_(1000) {
    inbox_.file(17, 2, 0, std::move(socket_.theirs));
    fill(payload_, 1);
  }
  void put(const Frame& frame, std::size_t bytes) {
    const std::size_t header = tcp::header_of(frame.bytes);
    std::vector<std::byte> wire(header + bytes);
    std::memcpy(wire.data(), &frame, header);
    std::copy_n(payload_.begin(), bytes, wire.begin() + static_cast<std::ptrdiff_t>(header));
    wire_.insert(wire_.end(), wire.begin(), wire.end());
  }
  /// Lets `bytes` of what was put arrive.
  void arrive(std::size_t bytes) {
    bytes = std::min(bytes, wire_.size());
    ASSERT_EQ(::send(socket_.ours.get(), wire_.data(), bytes, 0), static_cast<ssize_t>(bytes));
    wire_.erase(wire_.begin(), wire_.begin() + static_cast<std::ptrdiff_t>(bytes));
  }
  static Frame frame(Tag tag, std::uint32_t bytes, std::uint32_t sequence) {
    return {Frame::expected_magic, tag, bytes, sequence, {}};
  }

  SocketPair socket_;
  tcp::Inbox inbox_;
  tcp::Counters counters_;
  tcp::TcpReceiver receiver_;
  std::vector<std::byte> payload_, wire_;
};

TEST_F(TcpReceiverTest, TakesMessagesInPiecesOfAnySize) {
  for (const std::size_t piece : {1U, 15U, 16U, 17U, 999U, 5000U}) {
    const auto sequence = static_cast<std::uint32_t>(counters_.traffic.messages_received);
    put(frame(7, 1000, sequence), 1000);
    put(frame(8, 0, sequence + 1), 0);
    std::vector<std::byte> into(1000);
    while (!receiver_.try_receive(into.data(), 1000, 7)) {
      EXPECT_TRUE(receiver_.waiting());
      arrive(piece);
    }
    EXPECT_EQ(into, payload_);
    const std::byte* view = nullptr;
    while ((view = receiver_.try_acquire(0, 8)) == nullptr) arrive(piece);
    receiver_.release();
    EXPECT_FALSE(receiver_.waiting());
  }
  EXPECT_EQ(counters_.traffic.bytes_received, 6000U);
  EXPECT_EQ(counters_.moved, 6 * (1000 + tcp::header_of(1000) + tcp::header_of(0)));
}

TEST_F(TcpReceiverTest, WhatAcquireBeganReceiveMayEnd) {
  put(frame(7, 1000, 0), 1000);
  arrive(400);
  EXPECT_EQ(receiver_.try_acquire(1000, 7), nullptr);
  arrive(1000);
  std::vector<std::byte> into(1000);
  ASSERT_TRUE(receiver_.try_receive(into.data(), 1000, 7));
  EXPECT_EQ(into, payload_);
  EXPECT_EQ(counters_.traffic.bytes_copied, 1000U);
}

TEST_F(TcpReceiverTest, AMismatchIsNoticedWithTheHeaderAndStays) {
  put(frame(9, 1000, 0), 1000);
  arrive(tcp::frame_content);
  std::vector<std::byte> into(1000);
  for (int again = 0; again < 2; ++again) {
    EXPECT_THROW(receiver_.try_receive(into.data(), 1000, 7), Mismatch);
    EXPECT_THROW(receiver_.try_receive(into.data(), 999, 9), Mismatch);
    EXPECT_THROW(receiver_.try_receive(into.data(), 8, 9), Mismatch);
    arrive(sizeof(Frame) + 1000);
  }
  ASSERT_TRUE(receiver_.try_receive(into.data(), 1000, 9));
  EXPECT_EQ(into, payload_);
}

TEST_F(TcpReceiverTest, AMismatchOfALongerMessageStaysInPlace) {
  constexpr std::size_t size = 20'000, expected = 3000;
  payload_.resize(size);
  fill(payload_, 2);
  put(frame(9, size, 0), size);
  arrive(size);
  EXPECT_THROW(receiver_.try_acquire(expected, 7), Mismatch);
  const std::byte* view = nullptr;
  while ((view = receiver_.try_acquire(size, 9)) == nullptr) arrive(size);
  require_filled({view, size}, 2, "the message");
  receiver_.release();
}

TEST_F(TcpReceiverTest, AShortMessageInPlaceOfALongOneIsAMismatch) {
  put(frame(9, 0, 0), 0);
  arrive(tcp::frame_content);
  std::vector<std::byte> into(1000);
  EXPECT_THROW(receiver_.try_receive(into.data(), 1000, 9), Mismatch);
  EXPECT_TRUE(receiver_.try_receive(into.data(), 0, 9));
}

// Less is as slow to copy as it gets on processors whose `rep movsb` waits for itself (frame.hpp).
TEST(TcpFrame, LongPayloadsBeginAWholeLineBehindTheirHeadersBegin) {
  EXPECT_EQ(tcp::header_of(0), 16U);
  EXPECT_EQ(tcp::header_of(256), 16U);
  EXPECT_EQ(tcp::header_of(257), 64U);
  EXPECT_EQ(tcp::header_of(tcp::max_message), 64U);
}

TEST_F(TcpReceiverTest, RefusesWhatIsNoMessage) {
  put({0x4c4c4548, 7, 1000, 0, {}}, 1000);
  arrive(sizeof(Frame) + 1000);
  const auto error = thrown_by([&] { receiver_.try_receive(payload_.data(), 1000, 7); });
  EXPECT_EQ(error.code, ErrorCode::system);
  EXPECT_EQ(error.ranks, std::vector<Rank>{4});
}

TEST_F(TcpReceiverTest, RefusesAMessageOutOfSequence) {
  put(frame(7, 0, 1), 0);
  arrive(16);
  EXPECT_THROW(receiver_.try_receive(nullptr, 0, 7), Error);
}

TEST_F(TcpReceiverTest, AnEndInTheMiddleIsALoss) {
  put(frame(7, 1000, 0), 1000);
  arrive(500);
  std::vector<std::byte> into(1000);
  EXPECT_FALSE(receiver_.try_receive(into.data(), 1000, 7));
  socket_.ours.reset();
  const auto error = thrown_by([&] { receiver_.try_receive(into.data(), 1000, 7); });
  EXPECT_EQ(error.code, ErrorCode::peer_lost);
  EXPECT_EQ(error.ranks, std::vector<Rank>{4});
}

/// A page that nobody may touch.
class TabooPage {
 public:
  TabooPage() = default;
  TabooPage(const TabooPage&) = delete;
  TabooPage& operator=(const TabooPage&) = delete;
  ~TabooPage() { ::munmap(at_, bytes); }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(at_); }
  static constexpr std::size_t bytes = 4096;

 private:
  void* at_ = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

TEST_F(TcpReceiverTest, ABufferThatIsNotThereIsNoLossOfThePeer) {
  const TabooPage page;
  put(frame(7, 1000, 0), 1000);
  arrive(sizeof(Frame) + 1000);
  const auto thrown = thrown_by([&] { receiver_.try_receive(page.data(), 1000, 7); });
  EXPECT_EQ(thrown.code, ErrorCode::system) << thrown.text;
  EXPECT_TRUE(thrown.ranks.empty());
}

/// A network that takes a few KiB at a time.
SocketPair narrow_pair() {
  SocketPair pair = socket_pair();
  const int small = 4096;
  ::setsockopt(pair.ours.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  return pair;
}

class TcpSenderTest : public ::testing::Test {
 protected:
  TcpSenderTest() {
    auto streams = std::make_shared<tcp::Streams>(2);
    for (std::size_t s = 0; s < 2; ++s) {
      auto pair = narrow_pair();
      theirs_.at(s) = std::move(pair.theirs);
      streams->connect(s, PrivateDescriptor(std::move(pair.ours)));
    }
    sender_ = std::make_unique<tcp::TcpSender>(tcp::FifoName{4, 2}, std::move(streams), counters_, late_);
  }
  /// Reads all that stream `s` brings, making progress.
  std::vector<std::byte> drain(std::size_t s) {
    std::vector<std::byte> all, part(777);
    for (int idle = 0; idle < 2;) {
      const auto got = ::recv(theirs_.at(s).get(), part.data(), part.size(), 0);
      idle = got > 0 ? 0 : idle + 1;
      if (got > 0) all.insert(all.end(), part.begin(), part.begin() + got);
      sender_->progress();
    }
    return all;
  }
  /// How many bytes stream 0 brings until it ends.
  std::size_t read_to_the_end() {
    const Deadline deadline(std::chrono::seconds(10));
    std::vector<std::byte> part(5000);
    std::size_t all = 0;
    while (bootstrap::wait_for(theirs_[0].get(), POLLIN, deadline)) {
      const auto got = bootstrap::receive_some(theirs_[0].get(), part);
      if (!got) break;
      all += *got;
    }
    return all;
  }

  std::array<FileDescriptor, 2> theirs_;
  tcp::Counters counters_;
  tcp::LateFlush late_;
  std::unique_ptr<tcp::TcpSender> sender_;
};

TEST_F(TcpSenderTest, StripesMessagesOverStreams) {
  constexpr std::size_t size = 50'000;
  std::vector<std::vector<std::byte>> stable;
  for (Tag tag = 0; tag < 2 * channel_credits; ++tag) {
    stable.emplace_back(size);
    fill(stable.back(), tag);
    ASSERT_TRUE(sender_->try_send(stable.back().data(), size, tag, tag % 3 == 0)) << tag;
    if (tag % 3 != 0) scribble(stable.back());
  }
  EXPECT_FALSE(sender_->try_send(nullptr, 0, 99, false));
  EXPECT_EQ(sender_->try_reserve(1), nullptr);
  EXPECT_FALSE(sender_->flushed());
  EXPECT_EQ(counters_.backlogged, 1);
  for (const std::size_t s : {0U, 1U}) {
    const std::uint64_t before = counters_.moved;
    const auto wire = drain(s);
    ASSERT_EQ(wire.size(), channel_credits * (sizeof(Frame) + size));
    EXPECT_GT(counters_.moved, before + size) << "nobody would see it move";
    for (std::uint32_t i = 0; i < channel_credits; ++i) {
      const auto* at = wire.data() + i * (sizeof(Frame) + size);
      Frame frame;
      std::memcpy(&frame, at, sizeof frame);
      EXPECT_EQ(frame.sequence, 2 * i + s);
      EXPECT_EQ(frame.tag, frame.sequence);
      EXPECT_EQ(frame.bytes, size);
      require_filled({at + sizeof frame, size}, frame.tag, "message " + std::to_string(frame.tag));
    }
  }
  EXPECT_TRUE(sender_->flushed());
  EXPECT_EQ(counters_.backlogged, 0);
}

TEST_F(TcpSenderTest, WhatTheKernelDidNotTakeIsStagedAndNotFlushed) {
  std::vector<std::byte> bytes(50'000);
  ASSERT_TRUE(sender_->try_send(bytes.data(), bytes.size(), 0, false));
  EXPECT_GT(counters_.traffic.bytes_copied, 30'000U);
  EXPECT_FALSE(sender_->flushed());
  drain(0);
  EXPECT_TRUE(sender_->flushed());
}

TEST_F(TcpSenderTest, StagesLongMessagesInNoMoreRoomThanItsCreditsNeed) {
  constexpr std::size_t size = 50'000, room = 65'536;
  std::vector<std::byte> bytes(size);
  std::size_t sent = 0;
  for (int round = 0; round < 8; ++round) {
    while (sender_->try_send(bytes.data(), size, 0, false)) ++sent;
    for (const std::size_t s : {0U, 1U}) drain(s);
  }
  EXPECT_GE(sent, std::size_t{16} * channel_credits);
  EXPECT_LE(counters_.traffic.memory_held, 2 * channel_credits * room + 8192);
}

TEST_F(TcpSenderTest, FinishingSendsWhatIsStaged) {
  std::vector<std::byte> bytes(50'000);
  ASSERT_TRUE(sender_->try_send(bytes.data(), bytes.size(), 0, false));
  std::jthread reader([&] { EXPECT_EQ(read_to_the_end(), sizeof(Frame) + bytes.size()); });
  tcp::finish({&sender_, 1}, Deadline(std::chrono::seconds(10)));
  EXPECT_TRUE(sender_->flushed());
}

// The other peer would lose its last messages.
TEST_F(TcpSenderTest, APeerThatDoesNotReadHoldsUpNoOtherThatFinishes) {
  SocketPair deaf = narrow_pair();
  auto streams = std::make_shared<tcp::Streams>(1);
  streams->connect(0, PrivateDescriptor(std::move(deaf.ours)));
  std::array<std::unique_ptr<tcp::TcpSender>, 2> senders;
  senders[0] = std::make_unique<tcp::TcpSender>(tcp::FifoName{5, 2}, std::move(streams), counters_, late_);
  senders[1] = std::move(sender_);
  std::vector<std::byte> bytes(50'000);
  for (const auto& sender : senders) {
    ASSERT_TRUE(sender->try_send(bytes.data(), bytes.size(), 0, false));
    ASSERT_FALSE(sender->flushed());
  }
  std::jthread reader([&] {
    EXPECT_EQ(read_to_the_end(), sizeof(Frame) + bytes.size());
    deaf.theirs.reset();
  });
  tcp::finish(senders, Deadline(std::chrono::seconds(20)));
  EXPECT_TRUE(senders[1]->flushed());
}

TEST_F(TcpSenderTest, FinishingDoesNotTouchMemoryOfAFailedCall) {
  auto bytes = std::make_unique<std::vector<std::byte>>(50'000);
  ASSERT_TRUE(sender_->try_send(bytes->data(), bytes->size(), 0, true));
  bytes.reset();
  const auto begin = Clock::now();
  tcp::finish({&sender_, 1}, Deadline(std::chrono::seconds(20)));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(TcpSenderTest, FinishingIsBounded) {
  std::vector<std::byte> bytes(50'000);
  ASSERT_TRUE(sender_->try_send(bytes.data(), bytes.size(), 0, false));
  const auto begin = Clock::now();
  tcp::finish({&sender_, 1}, Deadline(std::chrono::milliseconds(100)));
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(100));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

// Another FIFO may have used up the time.
TEST_F(TcpSenderTest, FinishingSendsWhatTheNetworkTakesAlsoBehindTheDeadline) {
  std::vector<std::byte> bytes(50'000);
  ASSERT_TRUE(sender_->try_send(bytes.data(), bytes.size(), 0, false));
  const auto take = [&] {
    std::size_t all = 0;
    for (ssize_t got = 1; got > 0; all += static_cast<std::size_t>(std::max<ssize_t>(got, 0)))
      got = ::recv(theirs_[0].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    return all;
  };
  ASSERT_GT(take(), 0U);
  tcp::finish({&sender_, 1}, Deadline(std::chrono::seconds(0)));
  EXPECT_GT(take(), 0U);
}

TEST_F(TcpSenderTest, ABufferThatIsNotThereIsNoLossOfThePeer) {
  const TabooPage page;
  const auto thrown = thrown_by([&] { sender_->try_send(page.data(), 1000, 0, true); });
  EXPECT_EQ(thrown.code, ErrorCode::system) << thrown.text;
  EXPECT_TRUE(thrown.ranks.empty());
}

TEST_F(TcpSenderTest, AClosedPeerIsALoss) {
  theirs_[0].reset();
  std::byte byte{};
  const auto error = thrown_by([&] { sender_->try_send(&byte, 1, 0, false); });
  EXPECT_EQ(error.code, ErrorCode::peer_lost);
  EXPECT_EQ(error.ranks, std::vector<Rank>{4});
}

}  // namespace

}  // namespace tutti::transport::testing
