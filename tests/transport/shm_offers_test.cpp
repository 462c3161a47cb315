// Long sends that their receiver reads where they lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "conformance.hpp"
#include "shm_ranks.hpp"

namespace tutti::transport::testing {

namespace {

/// What the suite asks of channel 0 is done by that of sends and receives, and the other way round.
class Messages final : public Transport {
 public:
  explicit Messages(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  [[nodiscard]] bool reaches(Rank peer) const override { return inner_->reaches(peer); }
  [[nodiscard]] std::string explain(Rank peer) const override { return inner_->explain(peer); }
  [[nodiscard]] std::size_t max_message_bytes() const override { return inner_->max_message_bytes(); }
  Sender& sender(Rank peer, int channel) override { return inner_->sender(peer, swapped(channel)); }
  Receiver& receiver(Rank peer, int channel) override { return inner_->receiver(peer, swapped(channel)); }
  void progress() override { inner_->progress(); }
  void prepare_wait() override { inner_->prepare_wait(); }
  void cancel_wait() override { inner_->cancel_wait(); }
  void wait(std::chrono::microseconds longest) override { inner_->wait(longest); }
  [[nodiscard]] Traffic traffic() const override { return inner_->traffic(); }

 private:
  static int swapped(int channel) {
    return channel == 0 ? message_channel : channel == message_channel ? 0 : channel;
  }
  std::unique_ptr<Transport> inner_;
};

Transports message_ranks(int ranks) {
  Transports transports = shm_ranks(ranks);
  for (auto& transport : transports) transport = std::make_unique<Messages>(std::move(transport));
  return transports;
}

constexpr std::size_t longer = 20'000;

std::vector<std::byte> filled(std::size_t bytes, int with) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(with));
}

class ShmOffers : public ::testing::Test {
 protected:
  static shm::ShmTransport& shm(Transport& transport) { return dynamic_cast<shm::ShmTransport&>(transport); }
  Transports ranks_ = shm_ranks(2);
  Sender& sender_ = ranks_[0]->sender(1, message_channel);
  Receiver& receiver_ = ranks_[1]->receiver(0, message_channel);
  std::vector<std::byte> data_ = filled(longer, 1), received_ = filled(longer, 0);
};

TEST_F(ShmOffers, AreReadWhenTheyAreReceivedAndFlushedThen) {
  ASSERT_TRUE(sender_.try_send(data_.data(), longer, 7, true));
  EXPECT_FALSE(sender_.flushed());
  std::fill(data_.begin(), data_.end(), std::byte{2});
  ASSERT_TRUE(receiver_.try_receive(received_.data(), longer, 7));
  EXPECT_EQ(received_, filled(longer, 2)) << "copied when it was sent";
  EXPECT_TRUE(sender_.flushed());
  EXPECT_EQ(ranks_[0]->traffic().bytes_copied + ranks_[1]->traffic().bytes_copied, 0U);
  EXPECT_EQ(ranks_[1]->traffic().bytes_direct, longer);
}

TEST_F(ShmOffers, AreNotMadeOfWhatMayChangeNorOfShortMessagesNorOfSchedules) {
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

TEST_F(ShmOffers, AndCopiesComeInOrderRoundTheRing) {
  for (Tag tag = 0; tag < 3000; ++tag) {
    const bool offered = tag % 3 != 0;
    const std::size_t bytes = longer - tag % 1000;
    data_.assign(longer, static_cast<std::byte>(tag));
    ASSERT_TRUE(sender_.try_send(data_.data(), bytes, tag, offered)) << tag;
    EXPECT_EQ(sender_.flushed(), !offered) << tag;
    if (tag % 2 == 0) {
      ASSERT_TRUE(receiver_.try_receive(received_.data(), bytes, tag)) << tag;
      EXPECT_TRUE(std::equal(received_.begin(), received_.begin() + bytes, data_.begin())) << tag;
    } else {
      const std::byte* const view = receiver_.try_acquire(bytes, tag);
      ASSERT_NE(view, nullptr) << tag;
      EXPECT_TRUE(std::equal(view, view + bytes, data_.begin())) << tag;
      EXPECT_EQ(receiver_.try_acquire(bytes, tag), view);
      EXPECT_EQ(sender_.flushed(), !offered) << "while it is held";
      receiver_.release();
    }
    ASSERT_TRUE(sender_.flushed()) << tag;
  }
}

TEST_F(ShmOffers, AreNotReadOnceARankHasClosedItsBuffers) {
  ASSERT_TRUE(sender_.try_send(data_.data(), longer, 7, true));
  shm(*ranks_[0]).close_buffers(std::chrono::hours(1), [](Rank /*rank*/) { return false; });
  EXPECT_FALSE(receiver_.try_receive(received_.data(), longer, 7));
  EXPECT_EQ(receiver_.try_acquire(longer, 7), nullptr);
  EXPECT_EQ(received_, filled(longer, 0));
  EXPECT_FALSE(sender_.flushed());
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(ShmMessages, Conformance,
                         conformance_of({.name = "messages",
                                         .make = message_ranks,
                                         .notices_loss = false,
                                         .carries_sizes = false}),
                         conformance_name);

}  // namespace tutti::transport::testing
