// Sends and receives of any length in shared memory: in parts through slots, or read where they lie.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "shm_ranks.hpp"
#include "transport/shm/message_fifo.hpp"

namespace tutti::transport::testing {

namespace {

constexpr std::size_t longer = 20'000;      ///< than what is always copied
constexpr std::size_t longest = 3'000'001;  ///< more than the ring holds
static_assert(longer > shm::long_message && longest > shm::most_units * shm::unit_bytes);

using Bytes = std::vector<std::byte>;

Bytes filled(std::size_t bytes, int with) { return Bytes(bytes, static_cast<std::byte>(with)); }

/// Of seeds up to 999, a part of the same random bytes each, one further on: sanitizers make filling slow.
Bytes pattern(std::size_t bytes, std::uint32_t seed) {
  static const std::vector<std::uint32_t> any = [] {
    std::vector<std::uint32_t> words(std::size_t{1} << 20U);
    std::generate(words.begin(), words.end(), std::mt19937{});
    return words;
  }();
  const auto all = std::as_bytes(std::span(any));
  const auto part = all.subspan(seed, bytes);
  return {part.data(), part.data() + part.size()};
}

/// At once: sanitizers look at every access, and vectors compare std::byte by std::byte.
bool are_equal(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

class MessageFifo : public ::testing::Test {
 protected:
  static shm::ShmTransport& shm(Transport& transport) { return dynamic_cast<shm::ShmTransport&>(transport); }
  /// Sends and receives in turn until the message is through; how often something moved, but not all of it.
  int pass(const Bytes& data, Bytes& into, Tag tag) {
    int parts = 0;
    for (bool sent = false, received = false; !sent || !received;) {
      const bool was_sent = sent;
      sent = sent || sender_.try_send(data.data(), data.size(), tag, false);
      if (!sent && !sender_.sent_part()) throw std::logic_error("nothing was sent");
      received = receiver_.try_receive(into.data(), data.size(), tag);
      if (received) continue;
      if (!receiver_.received_part() && was_sent) throw std::logic_error("nothing was received");
      ++parts;
    }
    return parts;
  }
  Transports ranks_ = shm_ranks(2);
  Sender& sender_ = ranks_[0]->sender(1, message_channel);
  Receiver& receiver_ = ranks_[1]->receiver(0, message_channel);
  Bytes data_ = filled(longer, 1), received_ = filled(longer, 0);
};

TEST_F(MessageFifo, OffersAreReadWhenTheyAreReceivedAndFlushedThen) {
  ASSERT_TRUE(sender_.try_send(data_.data(), longer, 7, true));
  EXPECT_FALSE(sender_.flushed());
  std::fill(data_.begin(), data_.end(), std::byte{2});
  ASSERT_TRUE(receiver_.try_receive(received_.data(), longer, 7));
  EXPECT_EQ(received_, filled(longer, 2)) << "copied when it was sent";
  EXPECT_TRUE(sender_.flushed());
  EXPECT_EQ(ranks_[0]->traffic().bytes_copied + ranks_[1]->traffic().bytes_copied, 0U);
  EXPECT_EQ(ranks_[1]->traffic().bytes_direct, longer);
}

// Of others it is known at once, or not worth others' turns, or they have them anyway.
TEST_F(MessageFifo, OffersOfSomeLengthAreFlushedLate) {
  for (const std::size_t bytes : {longer, std::size_t{100'000}, std::size_t{1'000'000}, longest})
    for (const bool stable : {false, true}) {
      if (!stable && bytes > 100'000) continue;  // has no room
      data_ = filled(bytes, 1), received_ = filled(bytes, 0);
      EXPECT_FALSE(sender_.flushes_late());
      ASSERT_TRUE(sender_.try_send(data_.data(), bytes, 7, stable));
      EXPECT_EQ(sender_.flushes_late(), stable && bytes > longer && bytes < longest) << bytes << stable;
      while (!receiver_.try_receive(received_.data(), bytes, 7)) {
      }
      EXPECT_TRUE(sender_.flushed());
      EXPECT_FALSE(sender_.flushes_late());
    }
}

TEST_F(MessageFifo, OffersAreNotMadeOfWhatMayChangeNorOfShortMessagesNorOfSchedules) {
  ASSERT_TRUE(sender_.try_send(data_.data(), longer, 7, false));
  ASSERT_TRUE(sender_.try_send(data_.data(), 5000, 8, true));
  ASSERT_TRUE(ranks_[0]->sender(1, 0).try_send(data_.data(), longer, 9, true));
  EXPECT_TRUE(sender_.flushed());
  std::fill(data_.begin(), data_.end(), std::byte{2});
  ASSERT_TRUE(receiver_.try_receive(received_.data(), longer, 7));
  EXPECT_EQ(received_, filled(longer, 1));
  received_ = filled(5000, 0);
  ASSERT_TRUE(receiver_.try_receive(received_.data(), 5000, 8));
  EXPECT_EQ(received_, filled(5000, 1));
  received_ = filled(longer, 0);
  ASSERT_TRUE(ranks_[1]->receiver(0, 0).try_receive(received_.data(), longer, 9));
  EXPECT_EQ(received_, filled(longer, 1));
}

TEST_F(MessageFifo, OffersAndCopiesComeInOrderRoundTheRing) {
  for (Tag tag = 0; tag < 3000; ++tag) {
    const bool offered = tag % 3 != 0;
    const std::size_t bytes = longer - tag % 1000;
    const Bytes data = pattern(bytes, tag);
    received_ = filled(bytes, 0);
    while (!sender_.try_send(data.data(), bytes, tag, offered)) {
      ASSERT_TRUE(sender_.sent_part()) << tag;
    }
    EXPECT_EQ(sender_.flushed(), !offered) << tag;
    ASSERT_TRUE(receiver_.try_receive(received_.data(), bytes, tag)) << tag;
    ASSERT_TRUE(are_equal(received_, data)) << tag;
    ASSERT_TRUE(sender_.flushed()) << tag;
  }
}

TEST_F(MessageFifo, OffersAreNotReadOnceARankHasClosedItsBuffers) {
  ASSERT_TRUE(sender_.try_send(data_.data(), longer, 7, true));
  shm(*ranks_[0]).close_buffers(std::chrono::hours(1), [](Rank /*rank*/) { return false; });
  EXPECT_FALSE(receiver_.try_receive(received_.data(), longer, 7));
  EXPECT_FALSE(receiver_.received_part());
  EXPECT_EQ(received_, filled(longer, 0));
  EXPECT_FALSE(sender_.flushed());
}

// They let go of it on the way, and so its owner may close it.
TEST_F(MessageFifo, LongOffersAreReadInSeveralGoes) {
  const Bytes data = pattern(longest, 3);
  Bytes into(longest);
  ASSERT_TRUE(sender_.try_send(data.data(), longest, 7, true));
  EXPECT_FALSE(receiver_.try_receive(into.data(), longest, 7));
  EXPECT_TRUE(receiver_.received_part());
  EXPECT_EQ(shm(*ranks_[1]).control(1).inside.load(), 0U);
  EXPECT_FALSE(sender_.flushed());
  EXPECT_FALSE(receiver_.missing(longest));
  std::uint32_t seen = shm(*ranks_[0]).parts_taken();
  EXPECT_EQ(seen, 1U);
  while (!receiver_.try_receive(into.data(), longest, 7)) {
    ASSERT_TRUE(receiver_.received_part());
    ASSERT_EQ(shm(*ranks_[0]).parts_taken(), ++seen) << "its sender would give it up";
  }
  EXPECT_TRUE(sender_.flushed());
  EXPECT_TRUE(are_equal(into, data));
}

TEST_F(MessageFifo, WhatIsLongerThanTheRingPassesInParts) {
  const Bytes data = pattern(longest, 1);
  Bytes into(longest);
  EXPECT_GT(pass(data, into, 7), 2);
  EXPECT_TRUE(are_equal(into, data));
  const Traffic sent = ranks_[0]->traffic(), received = ranks_[1]->traffic();
  EXPECT_EQ(sent.messages_sent, 1U);
  EXPECT_EQ(sent.bytes_sent, longest);
  EXPECT_EQ(received.messages_received, 1U);
  EXPECT_EQ(received.bytes_received, longest);
  EXPECT_EQ(sent.bytes_copied + received.bytes_copied, 2 * longest);
}

TEST_F(MessageFifo, NoPartIsTakenForOneThatWasNotThere) {
  Bytes into(longest);
  EXPECT_TRUE(receiver_.missing(longest));
  EXPECT_FALSE(receiver_.try_receive(into.data(), longest, 7));
  EXPECT_FALSE(receiver_.received_part());
  const Bytes data = pattern(longest, 1);
  while (!sender_.try_send(data.data(), longest, 7, false) && sender_.sent_part()) {
  }
  EXPECT_FALSE(sender_.try_send(data.data(), longest, 7, false)) << "the ring is full";
  EXPECT_FALSE(sender_.sent_part());
  EXPECT_FALSE(receiver_.missing(longest));
}

TEST_F(MessageFifo, AMessageOfAnotherCallOrFormIsNoticed) {
  const Bytes data = pattern(longest, 1);
  Bytes into(longest);
  EXPECT_FALSE(sender_.try_send(data.data(), longest, 7, false));
  EXPECT_THROW(receiver_.try_receive(into.data(), longest, 8), Mismatch);
  const Transports others = shm_ranks(2);
  Receiver& receiver = others[1]->receiver(0, message_channel);
  ASSERT_TRUE(others[0]->sender(1, message_channel).try_send(data.data(), 8, 7, true));
  EXPECT_FALSE(receiver.try_receive(into.data(), longest, 7));
  EXPECT_THROW(receiver.suspect(longest, 7), Mismatch);
}

// It travels in a slot, though a message of so many bytes would not.
TEST_F(MessageFifo, AShortLastPartIsAwaitedWhereItComes) {
  const Bytes data = pattern(bytes_in_one_go + 100, 1);
  Bytes into(data.size());
  ASSERT_FALSE(sender_.try_send(data.data(), data.size(), 7, false));
  ASSERT_FALSE(receiver_.try_receive(into.data(), data.size(), 7));
  ASSERT_TRUE(receiver_.received_part());
  EXPECT_TRUE(receiver_.missing(data.size()));
  EXPECT_NO_THROW(receiver_.suspect(data.size(), 7));
  ASSERT_TRUE(sender_.try_send(data.data(), data.size(), 7, false));
  EXPECT_FALSE(receiver_.missing(data.size()));
  EXPECT_NO_THROW(receiver_.suspect(data.size(), 7));
  ASSERT_TRUE(receiver_.try_receive(into.data(), data.size(), 7));
  EXPECT_TRUE(are_equal(into, data));
}

// Also where the last message that the sender was told of, or the beginning, lies 2^32 units behind.
TEST(MessageFifos, ATimedMessageIsAwaitedWhereverItEnds) {
  const Bytes data = filled(shm::long_message, 1);
  constexpr std::uint32_t most = 1000;
  const auto first_awaited = [&](std::uint32_t first_unit) {
    const auto arena = shm::Arena::create(2);
    const std::vector<pid_t> two_processes{::getpid(), ::getppid()};
    const std::vector<Rank> ranks{0, 1};
    const shm::DirectMemory from(arena, 0, two_processes, ranks, true);
    shm::DirectMemory to(arena, 1, two_processes, ranks, true);
    shm::FifoMemory memory(*arena, 0, 1, message_channel);
    memory.first_unit = first_unit;
    memory.acknowledged[1].units = first_unit;
    shm::Wakes senders(arena), receivers(arena);
    Traffic traffic;
    shm::MessageSender sender(senders, memory, 1, traffic, from, nullptr);
    shm::MessageReceiver receiver(receivers, memory, 0, 1, traffic, to);
    Bytes into(data.size());
    std::uint32_t number = 1;
    for (; number < most; ++number) {
      EXPECT_TRUE(sender.try_send(data.data(), data.size(), 7, true));
      if (!sender.flushed()) break;
      EXPECT_TRUE(receiver.try_receive(into.data(), into.size(), 7));
    }
    return number;
  };
  const std::uint32_t number = first_awaited(0);
  ASSERT_LT(number, most) << "none is timed";
  EXPECT_EQ(first_awaited(0U - number * shm::units_for(data.size())), number);
}

// A rank's own time says little there. Both ends are in this process; who told its times is not.
TEST(MessageFifos, WhereRanksShareProcessorsLongOnesGoTheWayThatIsShorterForAll) {
  constexpr std::uint32_t ages = 2'000'000'000;
  // `range`: of lengths, as layout.hpp numbers them.
  const auto last_stayed = [&](std::size_t bytes, std::size_t range, const PathTrial::Times& told) {
    const Bytes data = pattern(bytes, 1);
    const auto arena = shm::Arena::create(3);
    const std::vector<pid_t> processes{::getpid(), ::getppid(), ::getppid()};
    const std::vector<Rank> ranks{0, 1, 2};
    const shm::DirectMemory from(arena, 0, processes, ranks, true);
    shm::DirectMemory to(arena, 1, processes, ranks, true);
    const shm::FifoMemory memory(*arena, 0, 1, message_channel);
    shm::Wakes senders(arena), receivers(arena);
    shm::MessageTimes mine(*arena, 0), of_other(*arena, 2);
    Traffic sent, received;
    shm::MessageSender sender(senders, memory, 1, sent, from, &mine);
    shm::MessageReceiver receiver(receivers, memory, 0, 1, received, to);
    Bytes into(data.size());
    std::uint64_t direct = 0;
    for (int number = 0; number < 90; ++number) {
      of_other.tell(range, told);
      direct = received.bytes_direct;
      for (bool all_sent = false, all_received = false; !all_sent || !all_received;) {
        all_sent = all_sent || sender.try_send(data.data(), data.size(), 7, true);
        all_received = all_received || receiver.try_receive(into.data(), into.size(), 7);
      }
      EXPECT_TRUE(sender.flushed());
      EXPECT_TRUE(are_equal(into, data));
    }
    return received.bytes_direct != direct;
  };
  PathTrial::Times slots_are_slow{}, direct_is_slow{};
  for (std::size_t pair = 0; pair < PathTrial::pairs; ++pair) {
    slots_are_slow[index_of(Path::slots)][pair] = direct_is_slow[index_of(Path::direct)][pair] = ages;
    slots_are_slow[index_of(Path::direct)][pair] = direct_is_slow[index_of(Path::slots)][pair] = 1;
  }
  for (const std::size_t range : {2, 7}) {
    const std::size_t bytes = shm::long_message << range;
    EXPECT_TRUE(last_stayed(bytes, range, slots_are_slow)) << bytes;
    EXPECT_TRUE(last_stayed(2 * bytes - 1, range, slots_are_slow)) << bytes;
    EXPECT_FALSE(last_stayed(bytes, range, direct_is_slow)) << bytes;
  }
}

// On few ranks, and on many, whose rings are short.
TEST(MessageFifos, AllLengthsPassBetweenThreadsThatRunAsTheyLike) {
  for (const int ranks : {2, 9, 40}) {
    const Transports transports = shm_ranks(ranks);
    const auto length = [](std::mt19937& random) {
      return std::size_t{1} << random() % 21 | random() % (1 << 14);
    };
    std::jthread writer([&] {
      std::mt19937 random(5);
      Sender& sender = transports[0]->sender(1, message_channel);
      for (Tag tag = 0; tag < 300; ++tag) {
        const Bytes data = pattern(length(random), tag);
        while (!sender.try_send(data.data(), data.size(), tag, tag % 4 == 0)) std::this_thread::yield();
        while (!sender.flushed()) std::this_thread::yield();
      }
    });
    std::mt19937 random(5);
    Receiver& receiver = transports[1]->receiver(0, message_channel);
    for (Tag tag = 0; tag < 300; ++tag) {
      Bytes into(length(random));
      while (!receiver.try_receive(into.data(), into.size(), tag)) std::this_thread::yield();
      ASSERT_TRUE(are_equal(into, pattern(into.size(), tag))) << ranks << " ranks, message " << tag;
    }
  }
}

}  // namespace

}  // namespace tutti::transport::testing
