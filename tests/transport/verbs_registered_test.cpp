// Messages that devices read straight from the caller's memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/mappings.hpp"
#include "rig.hpp"
#include "verbs_ranks.hpp"

namespace tutti::transport::testing {

namespace {

/// Sends `data` from rank 0 to rank 1 as it lies, in messages of so many bytes.
void send_in_place(const Transports& ranks, int channel, std::span<const std::byte> data, std::size_t bytes) {
  Sender& sender = ranks[0]->sender(1, channel);
  std::vector<std::byte> got(bytes);
  const Deadline deadline(std::chrono::seconds(20));
  for (std::size_t sent = 0, taken = 0; taken < data.size();) {
    ASSERT_FALSE(deadline.passed());
    if (sent < data.size() && sender.try_send(data.data() + sent, bytes, 1, true)) sent += bytes;
    ranks[0]->progress();
    ranks[1]->progress();
    if (!ranks[1]->receiver(0, channel).try_receive(got.data(), bytes, 1)) continue;
    ASSERT_EQ(std::memcmp(got.data(), data.data() + taken, bytes), 0) << "byte " << taken;
    taken += bytes;
  }
  while (!sender.flushed()) {
    ASSERT_FALSE(deadline.passed());
    ranks[0]->progress();
  }
}

TEST(VerbsRegistered, IsSentWithoutACopy) {
  for (const int rails : {1, 3}) {
    const auto ranks = fake_ranks(2, rails);
    const auto size = ranks[0]->max_message_bytes();
    std::vector<std::byte> data(8 * size);
    fill(data, 7);
    const auto lease = ranks[0]->register_memory(data.data(), data.size());
    send_in_place(ranks, 0, data, size);
    EXPECT_EQ(ranks[0]->traffic().bytes_copied, 0U);
    EXPECT_EQ(ranks[0]->traffic().memory_held, 0U);
  }
}

TEST(VerbsRegistered, WhatLiesAcrossTwoRangesIsCopied) {
  const std::size_t page = page_bytes();
  const auto ranks = fake_ranks(2);
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(page, 4 * page)), &std::free);
  const std::span data(memory.get(), 4 * page);
  fill(data, 8);
  auto first = ranks[0]->register_memory(data.data(), 2 * page);
  const auto second = ranks[0]->register_memory(data.data() + 2 * page, 2 * page);
  send_in_place(ranks, 0, data, 2 * page);
  EXPECT_EQ(ranks[0]->traffic().bytes_copied, 0U);
  send_in_place(ranks, 0, data, 4 * page);
  EXPECT_EQ(ranks[0]->traffic().bytes_copied, 4 * page);
  first.reset();
  send_in_place(ranks, 0, data, 2 * page);
  EXPECT_EQ(ranks[0]->traffic().bytes_copied, 6 * page) << "the first half has other pages, perhaps";
}

// Their headers and the signals are read from the same page. Its signals come around twice.
TEST(VerbsRegistered, HeadersAndSignalsLieApart) {
  verbs::VerbsOptions options;
  options.signal = verbs::Signal::send;
  const auto ranks = fake_ranks(2, 1, {}, options);
  constexpr std::size_t bytes = 500, messages = 1100;
  std::vector<std::byte> data(messages * bytes);
  fill(data, 9);
  const auto lease = ranks[0]->register_memory(data.data(), data.size());
  for (const int channel : {0, channels - 1}) send_in_place(ranks, channel, data, bytes);
  EXPECT_EQ(ranks[0]->traffic().bytes_copied, 0U);
}

}  // namespace

}  // namespace tutti::transport::testing
