#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "conformance.hpp"
#include "shm_ranks.hpp"
#include "transport/shm/fifo.hpp"
#include "transport/shm/shm_transport.hpp"

namespace tutti::transport::testing {

// Shared memory does not see a rank go; the session's lifeline does.
INSTANTIATE_TEST_SUITE_P(
    Shm, Conformance,
    conformance_of({.name = "shm", .make = shm_ranks, .notices_loss = false, .carries_sizes = false}),
    conformance_name);

namespace {

TEST(Shm, AMessageOfTheOtherFormIsSuspect) {
  const auto ranks = shm_ranks(2);
  std::vector<std::byte> bytes(10000);
  Sender& sender = ranks[0]->sender(1, 0);
  Receiver& receiver = ranks[1]->receiver(0, 0);
  receiver.suspect(100, 7);  // nothing has come: nothing to suspect
  ASSERT_TRUE(sender.try_send(bytes.data(), bytes.size(), 5, false));
  EXPECT_FALSE(receiver.try_receive(bytes.data(), 100, 7));  // waits for a line, a slot has come
  try {
    receiver.suspect(100, 7);
    FAIL() << "not suspected";
  } catch (const Mismatch& mismatch) {
    EXPECT_EQ(mismatch.expected, 7U);
    EXPECT_EQ(mismatch.found, 5U);
  }
  receiver.suspect(bytes.size(), 5);
  EXPECT_TRUE(receiver.try_receive(bytes.data(), bytes.size(), 5));
}

// What does not fit there starts at the front; what does, does not.
TEST(Shm, AMessageOfAnotherLengthIsSuspectAtTheEndOfTheRingToo) {
  struct Case {
    std::size_t sent, awaited;
  };
  constexpr std::size_t line = 100, unit = shm::unit_bytes, four = 4 * shm::unit_bytes;
  for (const auto [sent, awaited] :
       {Case{four, line}, Case{four, unit}, Case{unit, line}, Case{unit, four}}) {
    const auto ranks = shm_ranks(2);
    Sender& sender = ranks[0]->sender(1, 0);
    Receiver& receiver = ranks[1]->receiver(0, 0);
    std::vector<std::byte> bytes(four);
    for (std::uint32_t end = 3; end < shm::most_units; end += 3) {  // one unit is left
      ASSERT_TRUE(sender.try_send(bytes.data(), 3 * unit, 4, false));
      ASSERT_TRUE(receiver.try_receive(bytes.data(), 3 * unit, 4));
    }
    EXPECT_NO_THROW(receiver.suspect(awaited, 7));
    ASSERT_TRUE(sender.try_send(bytes.data(), sent, 5, false));
    EXPECT_FALSE(receiver.try_receive(bytes.data(), awaited, 7)) << sent << ", awaited " << awaited;
    EXPECT_THROW(receiver.suspect(awaited, 7), Mismatch) << sent << ", awaited " << awaited;
    EXPECT_NO_THROW(receiver.suspect(sent, 5)) << sent;
    EXPECT_TRUE(receiver.try_receive(bytes.data(), sent, 5)) << sent;
  }
}

TEST(Shm, AMessageBehindTheEndOfTheRingIsNotSuspect) {
  auto arena = shm::Arena::create(2);
  shm::Wakes senders(arena), receivers(arena);
  Traffic traffic;
  shm::ShmSender sender(senders, shm::FifoMemory(*arena, 0, 1, 0), {1}, traffic);
  shm::ShmReceiver receiver(receivers, shm::FifoMemory(*arena, 0, 1, 0), 0, 1, traffic);
  std::vector<std::byte> three(3 * shm::unit_bytes), brief(8);
  for (std::uint32_t unit = 0; unit + 3 <= arena->layout().fifo.units; unit += 3) {
    ASSERT_TRUE(sender.try_send(three.data(), three.size(), 7, false));
    ASSERT_TRUE(receiver.try_receive(three.data(), three.size(), 7));
  }
  ASSERT_NE(arena->layout().fifo.units % 3, 0U) << "the next one begins anew";
  ASSERT_TRUE(sender.try_send(three.data(), three.size(), 7, false));
  ASSERT_TRUE(sender.try_send(brief.data(), brief.size(), 8, false));
  EXPECT_NO_THROW(receiver.suspect(three.size(), 7));
  EXPECT_TRUE(receiver.try_receive(three.data(), three.size(), 7));
  EXPECT_TRUE(receiver.try_receive(brief.data(), brief.size(), 8));
}

// Where no message begins any more flags stay; where none ever began, 0 does. Positions come again. Rings of
// five ranks are rewound.
TEST(Shm, WhatAFlagHeld16TiBAgoIsNoMessage) {
  constexpr std::size_t one = shm::unit_bytes, three = 2 * shm::unit_bytes + 1;
  constexpr std::uint32_t half = std::uint32_t{1} << 31U;  // of all positions
  for (const int ranks : {2, 5})
    for (const bool used : {false, true}) {
      const auto arena = shm::Arena::create(ranks);
      shm::FifoMemory memory(*arena, 0, 1, 0);
      const auto pass = [&](std::uint32_t first, std::size_t bytes, std::uint32_t messages) {
        memory.first_unit = first;
        memory.acknowledged[1].units = first;
        shm::Wakes senders(arena), receivers(arena);
        Traffic traffic;
        shm::ShmSender sender(senders, memory, {1}, traffic);
        shm::ShmReceiver receiver(receivers, memory, 0, 1, traffic);
        std::vector<std::byte> message(bytes);
        for (std::uint32_t i = 0; i < messages; ++i) {
          ASSERT_NO_THROW(receiver.suspect(bytes, 7)) << i << " after " << first;
          ASSERT_TRUE(receiver.missing(bytes)) << i << " after " << first;
          ASSERT_TRUE(sender.try_send(message.data(), bytes, 7, false));
          ASSERT_TRUE(receiver.try_receive(message.data(), bytes, 7));
        }
      };
      const std::uint32_t lap = memory.units;
      SCOPED_TRACE(std::to_string(ranks) + (used ? " ranks, used before" : " ranks"));
      // What lies between two of these would go on likewise: three units a message leave out most flags.
      if (used) pass(0, one, lap);
      pass(half - lap, three, 2 * lap);
      pass(half + half - lap, three, 2 * lap);
    }
}

TEST(Shm, SeesWhetherAnythingHasComeWithoutTakingIt) {
  const auto ranks = shm_ranks(2);
  std::vector<std::byte> bytes(10000);
  for (const std::size_t size : {0, 8, 500, 10000}) {  // one line, several, a slot
    Receiver& receiver = ranks[1]->receiver(0, 0);
    EXPECT_TRUE(receiver.missing(size)) << size;
    ASSERT_TRUE(ranks[0]->sender(1, 0).try_send(bytes.data(), size, 5, false));
    EXPECT_FALSE(receiver.missing(size)) << size;
    EXPECT_FALSE(receiver.missing(size)) << size;
    ASSERT_TRUE(receiver.try_receive(bytes.data(), size, 5)) << size;
    EXPECT_TRUE(receiver.missing(size)) << size;
  }
}

TEST(Shm, BuffersAreClosedOnceNobodyIsInside) {
  const auto ranks = shm_ranks(3);
  const auto shm = [&](std::size_t r) -> shm::ShmTransport& {
    return dynamic_cast<shm::ShmTransport&>(*ranks[r]);
  };
  const auto nobody = [](Rank /*rank*/) { return false; };
  using namespace std::chrono_literals;
  ASSERT_TRUE(shm(1).direct().enter());
  ASSERT_TRUE(shm(2).direct().enter());
  shm(2).direct().leave();
  std::atomic<bool> closed = false;
  std::jthread closing([&] {
    shm(0).close_buffers(1h, nobody);
    closed = true;
  });
  while (shm(2).direct().enter()) shm(2).direct().leave();  // until it is closing
  EXPECT_FALSE(closed);
  shm(1).direct().leave();
  closing.join();
  EXPECT_FALSE(shm(1).direct().enter());
  shm(2).close_buffers(1h, nobody);  // waits neither for those refused
}

TEST(Shm, BuffersAreClosedAroundWhoIsGoneOrTakesTooLong) {
  const auto ranks = shm_ranks(2);
  auto& one = dynamic_cast<shm::ShmTransport&>(*ranks[0]);
  auto& other = dynamic_cast<shm::ShmTransport&>(*ranks[1]);
  ASSERT_TRUE(other.direct().enter());
  one.close_buffers(std::chrono::hours(1), [](Rank rank) { return rank == 1; });
  one.close_buffers(std::chrono::milliseconds(1), [](Rank /*rank*/) { return false; });
}

TEST(Shm, TheFrontOfTheRingComesNext) {
  EXPECT_EQ(shm::front_after(0, 16), 0U);
  EXPECT_EQ(shm::front_after(1, 16), 16U);
  EXPECT_EQ(shm::front_after(16, 16), 16U);
  EXPECT_EQ(shm::front_after(static_cast<std::uint32_t>(-2), 16), 0U);
}

TEST(Shm, MessagesAreContiguousAndSkipTheEndOfTheRing) {
  EXPECT_EQ(shm::slot_start(0, 3, 16, 16), 0U);
  EXPECT_EQ(shm::slot_start(13, 3, 16, 16), 13U);
  EXPECT_EQ(shm::slot_start(14, 3, 16, 16), 16U);
  EXPECT_EQ(shm::slot_start(7, 3, 16, 10), 7U);
  EXPECT_EQ(shm::slot_start(8, 3, 16, 10), 16U);
  EXPECT_EQ(shm::slot_start(static_cast<std::uint32_t>(-2), 3, 16, 16), 0U);  // positions wrap with the ring
}

TEST(Shm, TheLongestMessagesFitAsOftenAsPromisedWhereverTheFirstStarts) {
  for (const int ranks : {2, 8, 64}) {
    const auto arena = shm::Arena::create(ranks);
    shm::Wakes senders(arena), receivers(arena);
    Traffic traffic;
    shm::ShmSender sender(senders, shm::FifoMemory(*arena, 0, 1, 0), {1}, traffic);
    shm::ShmReceiver receiver(receivers, shm::FifoMemory(*arena, 0, 1, 0), 0, 1, traffic);
    std::vector<std::byte> longest(arena->layout().max_message()), unit(shm::unit_bytes);
    for (std::uint32_t start = 0; start < 2 * arena->layout().fifo.units; ++start) {
      for (int i = 0; i < channel_credits; ++i)
        ASSERT_TRUE(sender.try_send(longest.data(), longest.size(), 7, false)) << i << ", round " << start;
      for (int i = 0; i < channel_credits; ++i)
        ASSERT_TRUE(receiver.try_receive(longest.data(), longest.size(), 7));
      ASSERT_TRUE(sender.try_send(unit.data(), unit.size(), 7, false));  // the next round starts one further
      ASSERT_TRUE(receiver.try_receive(unit.data(), unit.size(), 7));
    }
  }
}

// Pages that are still in the caches are written again, rather than all of the ring in turn.
TEST(Shm, ATakenRingIsWrittenFromItsFrontAgain) {
  const auto ranks = shm_ranks(5);
  const shm::Layout layout(5);
  const std::size_t ring = layout.fifo.units * shm::unit_bytes,
                    of_pair = layout.pair_units() * shm::unit_bytes;
  const std::vector<std::byte> bytes(3 * shm::unit_bytes);
  const auto widest = [&](Sender& sender, const std::vector<Receiver*>& receivers, int in_flight) {
    std::set<const std::byte*> places;
    for (int round = 0; round < 200; ++round) {
      for (int i = 0; i < in_flight; ++i) EXPECT_TRUE(sender.try_send(bytes.data(), bytes.size(), 7, false));
      for (int i = 0; i < in_flight; ++i)
        for (Receiver* receiver : receivers) {
          const std::byte* at = receiver->try_acquire(bytes.size(), 7);
          EXPECT_NE(at, nullptr);
          EXPECT_EQ(receiver->try_acquire(bytes.size(), 7), at);
          if (receiver == receivers[0]) places.insert(at);
          receiver->release();
        }
    }
    return static_cast<std::size_t>(*places.rbegin() - *places.begin()) + bytes.size();
  };
  EXPECT_LE(widest(ranks[0]->sender(1, 0), {&ranks[1]->receiver(0, 0)}, 1), of_pair / 2);
  EXPECT_LE(widest(ranks[0]->sender(2, 0), {&ranks[2]->receiver(0, 0)}, 2), of_pair * 3 / 4);
  const std::size_t most = widest(ranks[1]->sender(0, 0), {&ranks[0]->receiver(1, 0)}, 9);
  EXPECT_GT(most, of_pair / 2);  // as much as it takes
  EXPECT_LE(most, of_pair);
  std::vector<Receiver*> all;
  for (std::size_t r = 1; r < 5; ++r) all.push_back(ranks[r]->multicast_receiver(0, 0));
  EXPECT_LE(widest(*ranks[0]->multicast_sender(0), all, 2), ring / 2);
  // A lone writer's ring is to be walked through.
  for (std::size_t r = 1; r < 5; ++r) all[r - 1] = ranks[r]->multicast_receiver(0, lone_channel);
  EXPECT_GT(widest(*ranks[0]->multicast_sender(lone_channel), all, 2),
            (shm::most_units - 8) * shm::unit_bytes);
}

// In lines 13 of these would fit.
TEST(Shm, AStreamHoldsManyShortMessages) {
  constexpr std::size_t size = 1024;
  const auto ranks = shm_ranks(2);
  Sender& sender = ranks[0]->sender(1, stream_channel);
  Receiver& receiver = ranks[1]->receiver(0, stream_channel);
  std::vector<std::byte> bytes(size);
  for (std::uint32_t i = 0; i < shm::most_units; ++i) {
    std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(i));
    ASSERT_TRUE(sender.try_send(bytes.data(), size, 7, false)) << i;
  }
  EXPECT_FALSE(sender.try_send(bytes.data(), size, 7, false));
  EXPECT_FALSE(ranks[1]->receiver(0, 0).try_receive(bytes.data(), size, 7));
  for (std::uint32_t i = 0; i < shm::most_units; ++i) {
    ASSERT_TRUE(receiver.try_receive(bytes.data(), size, 7)) << i;
    EXPECT_EQ(bytes, std::vector<std::byte>(size, static_cast<std::byte>(i)));
  }
  EXPECT_TRUE(sender.try_send(bytes.data(), size, 7, false));
}

TEST(Shm, ARingIsNotRewoundWhileItHoldsSomethingOrRoomIsReserved) {
  const auto ranks = shm_ranks(5);
  Sender& sender = ranks[0]->sender(1, 0);
  Receiver& receiver = ranks[1]->receiver(0, 0);
  const std::size_t size = 8 * shm::unit_bytes;
  std::vector<std::byte> bytes(size);
  const auto send = [&](std::byte value) {
    std::fill(bytes.begin(), bytes.end(), value);
    return sender.try_send(bytes.data(), size, 7, false);
  };
  const auto received = [&] {
    return receiver.try_receive(bytes.data(), size, 7) ? bytes[size - 1] : std::byte{};
  };
  for (int i = 1; i <= 5; ++i) ASSERT_TRUE(send(std::byte(i)));
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(received(), std::byte(i));
  ASSERT_TRUE(send(std::byte{6}));  // behind the fifth, not before it
  EXPECT_EQ(received(), std::byte{5});
  std::byte* const room = sender.try_reserve(size);
  EXPECT_EQ(received(), std::byte{6});
  EXPECT_EQ(sender.try_reserve(size), room);  // though all has been taken since
  std::fill_n(room, size, std::byte{7});
  sender.publish(size, 7);
  EXPECT_EQ(received(), std::byte{7});
}

TEST(Shm, MessagesStayInOrderWhileTheRingIsRewound) {
  const auto ranks = shm_ranks(5);
  const auto size_of = [](std::uint32_t i) { return (i * 7 % 8 + 1) * shm::unit_bytes; };
  constexpr std::uint32_t messages = 20'000;
  std::jthread writer([&] {
    Sender& sender = ranks[0]->sender(1, 0);
    for (std::uint32_t i = 0; i < messages; ++i) {
      std::byte* room = nullptr;
      while ((room = sender.try_reserve(size_of(i))) == nullptr) std::this_thread::yield();
      std::memcpy(room, &i, sizeof i);
      sender.publish(size_of(i), 7);
      if (i % 64 == 0) std::this_thread::yield();
    }
  });
  Receiver& receiver = ranks[1]->receiver(0, 0);
  std::uint32_t out_of_order = 0;
  for (std::uint32_t i = 0; i < messages; ++i) {
    const std::byte* at = nullptr;
    while ((at = receiver.try_acquire(size_of(i), 7)) == nullptr) std::this_thread::yield();
    std::uint32_t found = 0;
    std::memcpy(&found, at, sizeof found);
    out_of_order += found == i ? 0 : 1;
    receiver.release();
  }
  EXPECT_EQ(out_of_order, 0U);
}

TEST(Shm, MemoryOfARankStaysWithinAFewMiB) {
  for (const int ranks : {2, 8, 16, 64}) {
    const shm::Layout layout(ranks);
    // Of each of the ranks that are near, and of itself, two.
    const auto fifos = static_cast<std::size_t>(2 * std::min(ranks, 17));
    const std::size_t to_all = fifos * layout.fifo.stride + layout.lone.stride;
    EXPECT_LE(to_all, std::size_t{7} << 20) << ranks << " ranks";
    EXPECT_GE(layout.max_message() * channel_credits, std::size_t{8} << 10);
  }
}

// Whether rank 1 still passes for asleep: who wakes it takes that back.
class ShmSleeper : public ::testing::Test {
 protected:
  [[nodiscard]] bool asleep() const {
    return static_cast<shm::ShmTransport&>(*ranks_[1]).control(1).sleeping.load() != 0;
  }
  void send(std::size_t bytes) {
    const std::vector<std::byte> message(bytes);
    ASSERT_TRUE(ranks_[0]->sender(1, 0).try_send(message.data(), bytes, 1, false));
  }
  Transports ranks_ = shm_ranks(2);
};

TEST_F(ShmSleeper, IsNotWokenByEachMessage) {
  ranks_[1]->prepare_wait();
  for (const std::size_t bytes : {1, 10'000, 1}) send(bytes);
  EXPECT_TRUE(asleep());
  ranks_[0]->progress();
  EXPECT_FALSE(asleep());
}

TEST_F(ShmSleeper, IsWokenByWhoFlushesOrFallsAsleep) {
  ranks_[1]->prepare_wait();
  send(1);
  EXPECT_TRUE(ranks_[0]->sender(1, 0).flushed());
  EXPECT_FALSE(asleep());
  ranks_[1]->cancel_wait();
  ranks_[1]->prepare_wait();
  send(1);
  ranks_[0]->prepare_wait();
  EXPECT_FALSE(asleep());
}

TEST_F(ShmSleeper, IsWokenForRoomAndOnce) {
  std::vector<std::byte> bytes(ranks_[0]->max_message_bytes());
  const std::size_t told_at_once = shm::Layout(2).fifo.units / 8 * shm::unit_bytes;
  for (std::size_t sent = 0; sent < told_at_once; sent += bytes.size())
    ASSERT_TRUE(ranks_[1]->sender(0, 0).try_send(bytes.data(), bytes.size(), 1, false));
  ranks_[1]->prepare_wait();
  for (std::size_t taken = 0; taken < told_at_once; taken += bytes.size())
    ASSERT_TRUE(ranks_[0]->receiver(1, 0).try_receive(bytes.data(), bytes.size(), 1));
  ranks_[0]->progress();
  EXPECT_FALSE(asleep());
  ranks_[1]->cancel_wait();
  ranks_[1]->prepare_wait();
  ranks_[0]->progress();  // has no news
  EXPECT_TRUE(asleep());
}

}  // namespace

}  // namespace tutti::transport::testing
