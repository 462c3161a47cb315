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

/// Each is a part of one row of numbers that begins elsewhere, and none of them is made anew: that takes
/// longer than to send it.
std::span<const std::uint32_t> message_of(std::size_t length, Rank from, int number) {
  constexpr std::size_t ranks = 5, most = 3 * messages, apart = 613, longest = 300'000;
  static const Message row = [] {
    Message all(ranks * most * apart + longest);
    std::iota(all.begin(), all.end(), 1U);
    return all;
  }();
  const std::size_t nth = ranks * static_cast<std::size_t>(number) + static_cast<std::size_t>(from);
  return std::span(row).subspan(nth * apart, length);
}

bool is_message_of(const Message& received, Rank from, int number) {
  const auto right = message_of(received.size(), from, number);
  return std::memcmp(received.data(), right.data(), right.size_bytes()) == 0;
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
            const auto message = message_of(length, from, number);
            sent.assign(message.begin(), message.end());
            comm.send(std::span<const std::uint32_t>(sent), 1 - from);
            std::memset(sent.data(), 0, length * sizeof sent[0]);
          } else {
            comm.receive(std::span(received), from);
            ASSERT_TRUE(is_message_of(received, from, number)) << length << ", message " << number;
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
      Message sent, received(length);
      for (int number = 0; number < messages / 2; ++number) {
        const auto message = message_of(length, comm.rank(), number);
        sent.assign(message.begin(), message.end());
        auto group = comm.group();
        group.send(std::span<const std::uint32_t>(sent), next);
        group.receive(std::span(received), previous);
        group.run();
        ASSERT_TRUE(is_message_of(received, previous, number)) << length << ", message " << number;
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
        const auto message = message_of(length_of(number), 0, number);
        auto& sent = under_way.emplace_back(Sent{{message.begin(), message.end()}, {}});
        sent.work = comm.async().send(std::span<const std::uint32_t>(sent.data), 1);
        if (under_way.size() < 4) continue;
        under_way.front().work.wait();
        under_way.pop_front();
      } else {
        received.assign(length_of(number), 0);
        comm.receive(std::span(received), 0);
        ASSERT_TRUE(is_message_of(received, 0, number)) << "message " << number;
      }
    }
    for (Sent& sent : under_way) sent.work.wait();
    EXPECT_EQ(comm.stats().bytes_direct > 0, comm.rank() == 1) << "attach was not tried";
  });
}

#endif  // __SANITIZE_THREAD__

}  // namespace
}  // namespace tutti::test
