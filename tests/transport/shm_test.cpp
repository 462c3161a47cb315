#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "local_group.hpp"
#include "rig.hpp"
#include "transport/shm/fifo.hpp"
#include "transport/shm/shm_transport.hpp"

namespace tutti::transport::testing {

namespace {

Transports shm_ranks(int ranks) {
  const auto groups = local_groups(ranks);
  Transports transports(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      transports[static_cast<std::size_t>(r)] =
          std::make_unique<shm::ShmTransport>(groups[static_cast<std::size_t>(r)], r % 2 == 0);
    });
  threads.clear();
  return transports;
}

}  // namespace

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

TEST(Shm, MessagesAreContiguousAndSkipTheEndOfTheRing) {
  EXPECT_EQ(shm::slot_start(0, 3, 16), 0U);
  EXPECT_EQ(shm::slot_start(13, 3, 16), 13U);
  EXPECT_EQ(shm::slot_start(14, 3, 16), 16U);
  EXPECT_EQ(shm::slot_start(static_cast<std::uint32_t>(-2), 3, 16), 0U);  // positions wrap with the ring
}

TEST(Shm, MemoryOfARankStaysWithinAFewMiB) {
  for (const int ranks : {2, 8, 16, 64}) {
    const shm::Layout layout(ranks);
    const std::size_t to_all = static_cast<std::size_t>(ranks) * layout.fifo_stride;
    EXPECT_LE(to_all, std::size_t{6} << 20) << ranks << " ranks";
    EXPECT_GE(layout.max_message() * channel_credits, std::size_t{8} << 10);
  }
}

TEST(Shm, ASleeperIsWokenByAMessage) {
  const auto ranks = shm_ranks(2);
  std::byte byte{};
  Receiver& receiver = ranks[1]->receiver(0, 0);
  ASSERT_FALSE(receiver.try_receive(&byte, 1, 1));
  const std::jthread other([&] { ranks[0]->sender(1, 0).try_send(&byte, 1, 1, false); });
  const Deadline deadline(std::chrono::seconds(20));
  while (!receiver.try_receive(&byte, 1, 1)) {
    ASSERT_FALSE(deadline.passed());
    ranks[1]->wait(std::chrono::milliseconds(1));
  }
}

}  // namespace

}  // namespace tutti::transport::testing
