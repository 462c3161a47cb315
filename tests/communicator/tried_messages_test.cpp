// Sends between processes try both ways, slots and cross-memory attach: whichever they take, what arrives is
// what was sent.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <numeric>
#include <span>
#include <vector>

#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

#ifndef __SANITIZE_THREAD__  // which sees one process, and here ranks are processes

using Message = std::vector<std::uint32_t>;

// From a trial's first calls until after its decision, of short messages in the longest ring.
constexpr int messages = 300;

Message message_of(std::size_t length, Rank from, int number) {
  Message message(length);
  std::iota(message.data(), message.data() + length,
            1'000'003 * static_cast<std::uint32_t>(number) + 77 * static_cast<std::uint32_t>(from));
  return message;
}

// The sender writes its buffer anew as soon as it has it back.
TEST(TriedMessages, ArriveAsTheyWereWhenTheyWereSent) {
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(2, over("shm"), [](Communicator& comm) {
    for (const std::size_t length : {5'000, 20'000, 300'000}) {
      const auto before = comm.stats().bytes_direct;
      Message sent, received(length);
      for (int number = 0; number < messages; ++number)
        for (const Rank from : {0, 1}) {
          if (comm.rank() == from) {
            sent = message_of(length, from, number);
            comm.send(std::span<const std::uint32_t>(sent), 1 - from);
            std::memset(sent.data(), 0, length * sizeof sent[0]);
          } else {
            comm.receive(std::span(received), from);
            ASSERT_EQ(received, message_of(length, from, number)) << length << ", message " << number;
          }
        }
      EXPECT_GT(comm.stats().bytes_direct, before) << length << ": attach was not tried";
      EXPECT_LT(comm.stats().bytes_direct - before, messages * length * sizeof(std::uint32_t))
          << length << ": slots were not tried";
    }
  });
}

// Of more ranks than this machine may have processors.
TEST(TriedMessages, InGroupsOfAllRanks) {
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(5, over("shm"), [](Communicator& comm) {
    const Rank next = (comm.rank() + 1) % 5, previous = (comm.rank() + 4) % 5;
    for (const std::size_t length : {5'000, 60'000}) {
      Message received(length);
      for (int number = 0; number < messages / 2; ++number) {
        const Message sent = message_of(length, comm.rank(), number);
        auto group = comm.group();
        group.send(std::span<const std::uint32_t>(sent), next);
        group.receive(std::span(received), previous);
        group.run();
        ASSERT_EQ(received, message_of(length, previous, number)) << length << ", message " << number;
      }
    }
    EXPECT_GT(comm.stats().bytes_direct, 0U) << "attach was not tried";
  });
}

// Several of different lengths are under way, and so is one that is timed.
TEST(TriedMessages, SeveralAtOnceInTheirOrder) {
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(2, over("shm"), [](Communicator& comm) {
    const auto length_of = [](int number) { return std::size_t{4'000} << static_cast<unsigned>(number % 7); };
    struct Sent {
      Message data;
      Work work;
    };
    std::deque<Sent> under_way;
    Message received;
    for (int number = 0; number < 3 * messages; ++number) {
      if (comm.rank() == 0) {
        auto& sent = under_way.emplace_back(Sent{message_of(length_of(number), 0, number), {}});
        sent.work = comm.async().send(std::span<const std::uint32_t>(sent.data), 1);
        if (under_way.size() < 4) continue;
        under_way.front().work.wait();
        under_way.pop_front();
      } else {
        received.assign(length_of(number), 0);
        comm.receive(std::span(received), 0);
        ASSERT_EQ(received, message_of(received.size(), 0, number)) << "message " << number;
      }
    }
    for (Sent& sent : under_way) sent.work.wait();
    EXPECT_EQ(comm.stats().bytes_direct > 0, comm.rank() == 1) << "attach was not tried";
  });
}

#endif  // __SANITIZE_THREAD__

}  // namespace
}  // namespace tutti::test
