// The server of a window's memory, and who talks to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "bootstrap/ranks.hpp"
#include "bootstrap/socket.hpp"
#include "transport/few_allocations.hpp"
#include "transport/tcp/tcp_memory.hpp"
#include "transport/tcp/window_server.hpp"

namespace tutti::transport::testing {

namespace {

using test::thrown_by;
using ::testing::HasSubstr;

std::pair<FileDescriptor, FileDescriptor> connected_sockets() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::unique_ptr<tcp::TcpMemory> memory_over(FileDescriptor connection, std::byte* mine = nullptr) {
  auto shared = std::make_shared<PrivateDescriptor>(std::move(connection));
  return std::make_unique<tcp::TcpMemory>(
      1, mine, 0, [shared] { return std::move(*shared); }, "a test");
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

TEST_F(TcpWindow, WhoHadNoMemoryToAskAsksAgain) {
  tcp::Served served;
  served.ask = [](Rank, std::span<const std::byte> question) {
    return std::vector(question.begin(), question.end());
  };
  const tcp::WindowServer server(served, 0, {10, world_of_rank_1, world_of_rank_2}, inbox_);
  const auto memory = reached_by(world_of_rank_2);
  std::vector<std::byte> question(1);
  const auto ask = [&] { return memory->ask(question, Deadline(std::chrono::seconds(20))); };
  bool answered = false;
  for (int allocations = 0; !answered; ++allocations) {
    question.push_back(std::byte{7});
    try {
      const FewAllocations few(allocations);
      answered = ask().size() == question.size();
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(ask(), question) << allocations;
    }
  }
}

TEST_F(TcpWindow, WhyAQuestionWasRefusedIsTold) {
  tcp::Served served;
  bool refuse = true;
  served.ask = [&](Rank from, std::span<const std::byte> question) {
    if (std::exchange(refuse, false))
      throw Error(ErrorCode::system, "creating a queue pair: out of memory", {from});
    return std::vector(question.begin(), question.end());
  };
  const tcp::WindowServer server(served, 0, {10, world_of_rank_1, world_of_rank_2}, inbox_);
  const auto memory = reached_by(world_of_rank_2);
  const std::array question{std::byte{1}, std::byte{2}};
  const auto ask = [&] { return memory->ask(question, Deadline(std::chrono::seconds(20))); };
  const auto thrown = thrown_by([&] { static_cast<void>(ask()); });
  EXPECT_EQ(thrown.code, ErrorCode::system);
  EXPECT_EQ(thrown.text, "tutti: system: rank 0 refuses: creating a queue pair: out of memory");
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{0});
  EXPECT_THAT(ask(), ::testing::ElementsAreArray(question)) << "the connection goes on";
}

TEST_F(TcpWindow, AnEmptyQuestionIsAnswered) {
  tcp::Served served;
  served.ask = [](Rank, std::span<const std::byte> question) {
    return std::vector<std::byte>(question.size() + 1);
  };
  const tcp::WindowServer server(served, 0, {10, world_of_rank_1, world_of_rank_2}, inbox_);
  const auto memory = reached_by(world_of_rank_2);
  EXPECT_EQ(memory->ask({}, Deadline(std::chrono::seconds(20))).size(), 1U);
}

TEST(TcpWindowMemory, ThatIsNotThereIsNoLossOfThePeer) {
  constexpr std::size_t bytes = 4096;
  void* const taboo = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (const bool is_put : {true, false}) {
    auto sockets = connected_sockets();
    const auto memory = memory_over(std::move(sockets.second), static_cast<std::byte*>(taboo));
    const Block block{.bytes = 1000};
    const auto thrown = thrown_by([&] {
      if (is_put) return memory->put({&block, 1});
      memory->get({&block, 1});
      const tcp::WindowFrame answer{.kind = tcp::WindowKind::data, .number = 1, .b = block.bytes};
      const std::vector<std::byte> data(block.bytes);
      ASSERT_EQ(::write(sockets.first.get(), &answer, sizeof answer), static_cast<ssize_t>(sizeof answer));
      ASSERT_EQ(::write(sockets.first.get(), data.data(), data.size()), static_cast<ssize_t>(data.size()));
      memory->done();
    });
    EXPECT_EQ(thrown.code, ErrorCode::system) << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
  }
  ::munmap(taboo, bytes);
}

/// A connection that is served by nobody but the test.
class TcpWindowTurns : public ::testing::Test {
 protected:
  static constexpr std::size_t turn = 4096;
  TcpWindowTurns() {
    served_.memory = memory_;
    served_.turn_bytes = turn;
  }
  void get(std::size_t bytes) {
    const tcp::WindowFrame frame{.kind = tcp::WindowKind::get, .b = bytes};
    ASSERT_EQ(::send(peer_.get(), &frame, sizeof frame, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof frame));
  }
  /// Bytes that have come at the peer.
  std::size_t take() {
    std::vector<std::byte> room(memory_.size());
    std::size_t sum = 0;
    for (ssize_t got = 1; got > 0; sum += static_cast<std::size_t>(std::max<ssize_t>(got, 0)))
      got = ::recv(peer_.get(), room.data(), room.size(), MSG_DONTWAIT);
    return sum;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(16 * turn);
  tcp::Served served_;
  std::pair<FileDescriptor, FileDescriptor> ends_ = connected_sockets();
  FileDescriptor peer_ = std::move(ends_.second);
  tcp::ServedConnection connection_{1, PrivateDescriptor(std::move(ends_.first)), served_};
};

TEST_F(TcpWindowTurns, OfGetsAreBounded) {
  for (const std::size_t bytes : {memory_.size(), turn / 4}) {
    const std::size_t gets = memory_.size() / bytes;
    for (std::size_t k = 0; k < gets; ++k) get(bytes);
    for (std::size_t left = memory_.size() + gets * sizeof(tcp::WindowFrame); left > 0;) {
      ASSERT_TRUE(connection_.advance());
      const std::size_t moved = take();
      ASSERT_GT(moved, 0U);
      ASSERT_LE(moved, std::min(left, 2 * turn)) << "gets of " << bytes << " bytes";
      left -= moved;
    }
    EXPECT_EQ(connection_.events(), POLLIN);
  }
}

/// Frames of a server that is not there.
class TcpWindowFrames : public ::testing::Test {
 protected:
  void answer(tcp::WindowFrame frame) { write(&frame, sizeof frame); }
  void write(const void* bytes, std::size_t count) {
    ASSERT_EQ(::send(ends_.first.get(), bytes, count, MSG_NOSIGNAL), static_cast<ssize_t>(count));
  }
  std::pair<FileDescriptor, FileDescriptor> ends_ = connected_sockets();
  std::unique_ptr<tcp::TcpMemory> memory_ = memory_over(std::move(ends_.second));
};

TEST_F(TcpWindowFrames, AnAnswerHasComeWithItsLastByte) {
  const std::array text{'l', 'a', 't', 'e'};
  answer({.kind = tcp::WindowKind::answer, .number = 1, .b = text.size()});
  const auto ask = [&](int milliseconds) {
    return memory_->ask(std::as_bytes(std::span(text)), Deadline(std::chrono::milliseconds(milliseconds)));
  };
  EXPECT_EQ(thrown_by([&] { static_cast<void>(ask(0)); }).code, ErrorCode::timeout);
  EXPECT_EQ(memory_->done(), 0U);
  write(text.data(), text.size());
  EXPECT_EQ(memory_->done(), 1U);
  answer({.kind = tcp::WindowKind::answer, .number = 2, .b = 0});
  EXPECT_TRUE(ask(20'000).empty());
}

TEST_F(TcpWindowFrames, WhoHasAnsweredEverythingMayLeave) {
  const auto ask = [&] { return memory_->ask({}, Deadline(std::chrono::milliseconds(0))); };
  EXPECT_EQ(thrown_by([&] { static_cast<void>(ask()); }).code, ErrorCode::timeout);
  answer({.kind = tcp::WindowKind::answer, .number = 1, .b = 0});
  ASSERT_EQ(::shutdown(ends_.first.get(), SHUT_WR), 0);
  EXPECT_EQ(memory_->done(), 1U);
  EXPECT_EQ(thrown_by([&] { memory_->check(); }).code, ErrorCode::peer_lost);
}

// Nobody answers, and the limit is not the first to end it.
TEST_F(TcpWindowFrames, WhoAsksLooksAroundMeanwhile) {
  int looks = 0;
  const bootstrap::Limit limit(Deadline(std::chrono::hours(1)), [&looks] {
    if (++looks == 3) throw Error(ErrorCode::aborted, "enough of it", {2});
  });
  const auto thrown = thrown_by([&] { static_cast<void>(memory_->ask({}, limit)); });
  EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{2});
}

TEST_F(TcpWindowFrames, WhatWasDoneBeforeALossIsKnown) {
  memory_->notify(0);
  memory_->notify(0);
  answer({.kind = tcp::WindowKind::done, .number = 1});
  ASSERT_EQ(::shutdown(ends_.first.get(), SHUT_WR), 0);
  EXPECT_EQ(thrown_by([&] { memory_->done(); }).code, ErrorCode::peer_lost);
  EXPECT_EQ(memory_->known_done(), 1U);
}

TEST_F(TcpWindowFrames, WhatWasDoneBeforeNothingCouldBeSentIsKnown) {
  memory_->notify(0);
  answer({.kind = tcp::WindowKind::done, .number = 1});
  ends_.first.reset();
  EXPECT_EQ(thrown_by([&] { memory_->notify(0); }).code, ErrorCode::peer_lost);
  EXPECT_EQ(memory_->known_done(), 1U);
}

TEST_F(TcpWindowFrames, AnAnswerOfAnotherLengthAnswersNothing) {
  const Block block{.bytes = 8};
  memory_->get({&block, 1});
  answer({.kind = tcp::WindowKind::data, .number = 1, .b = 4});
  EXPECT_THAT(thrown_by([&] { memory_->done(); }).text, HasSubstr("answers what was not asked"));
  EXPECT_EQ(memory_->known_done(), 0U);
}

TEST_F(TcpWindowFrames, ALateAnswerIsNotTakenForThatOfTheNextQuestion) {
  const std::array late{std::byte{2}}, right{std::byte{3}};
  const auto ask = [&] { return memory_->ask(late, Deadline(std::chrono::milliseconds(0))); };
  const auto say = [&](std::uint64_t number, std::span<const std::byte> bytes) {
    answer({.kind = tcp::WindowKind::answer, .number = number, .b = bytes.size()});
    write(bytes.data(), bytes.size());
  };
  EXPECT_EQ(thrown_by([&] { static_cast<void>(ask()); }).code, ErrorCode::timeout);
  say(1, late);
  EXPECT_EQ(thrown_by([&] { static_cast<void>(ask()); }).code, ErrorCode::timeout);
  say(2, late);
  say(3, right);
  EXPECT_THAT(ask(), ::testing::ElementsAreArray(right));
}

// The network is full, and the question is still here when its asker has given up.
TEST(TcpWindowQuestions, AQuestionOutlivesItsAsker) {
  std::vector<std::byte> data(4 << 20), received;
  auto [server, mine] = connected_sockets();
  const auto connection = std::make_shared<PrivateDescriptor>(std::move(mine));
  tcp::TcpMemory memory(
      1, data.data(), 0, [connection] { return std::move(*connection); }, "a test");
  const Block all{.local = 0, .remote = 0, .bytes = data.size()};
  memory.put({&all, 1});
  std::vector question(24, std::byte{1});
  EXPECT_EQ(thrown_by([&] {
              static_cast<void>(memory.ask(question, Deadline(std::chrono::milliseconds(0))));
            }).code,
            ErrorCode::timeout);
  std::ranges::fill(question, std::byte{2});
  const std::size_t expected = data.size() + question.size() + 2 * sizeof(tcp::WindowFrame);
  const Deadline deadline(std::chrono::seconds(20));
  for (std::array<std::byte, 65536> part{}; received.size() < expected;) {
    ASSERT_FALSE(deadline.passed());
    const auto got = ::recv(server.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (got > 0) received.insert(received.end(), part.begin(), part.begin() + got);
    ASSERT_EQ(memory.done(), 0U);
  }
  EXPECT_THAT(std::span(received).last(question.size()), ::testing::Each(std::byte{1}));
}

TEST_F(TcpWindowFrames, NumbersThatMakeNoSenseAreRefused) {
  memory_->notify(0);
  memory_->notify(0);
  answer({.kind = tcp::WindowKind::done, .number = 2});
  EXPECT_EQ(memory_->done(), 2U);
  memory_->notify(0);
  for (const std::uint64_t number : {0, 2, 4}) {
    answer({.kind = tcp::WindowKind::done, .number = number});
    EXPECT_THAT(thrown_by([&] { memory_->done(); }).text, HasSubstr("answers what was not asked")) << number;
  }
  answer({.kind = tcp::WindowKind::done, .number = 3});
  EXPECT_EQ(memory_->done(), 3U);
}

}  // namespace

}  // namespace tutti::transport::testing
