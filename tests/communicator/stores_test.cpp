// A fold into a message is written as its sender asks.
#include <gtest/gtest.h>

#include <vector>

#include "execution/executor.hpp"
#include "gpu/in_turn.hpp"

namespace tutti {

namespace {

kernels::FoldModifiers asked_for;  // of the last fold

void note(std::span<std::byte* const>, std::span<const std::byte* const>, std::size_t,
          const kernels::FoldModifiers& modifiers) {
  asked_for = modifiers;
}

class PastCaches final : public transport::Sender {
 public:
  explicit PastCaches(std::size_t bytes) : room_(bytes) {}
  std::byte* try_reserve(std::size_t) override { return room_.data(); }
  [[nodiscard]] bool past_caches(std::size_t) const override { return true; }
  void publish(std::size_t, transport::Tag) override {}
  bool try_send(const std::byte*, std::size_t, transport::Tag, bool) override { return true; }
  bool flushed() override { return true; }

 private:
  std::vector<std::byte> room_;
};

/// What a fold of two inputs into memory, a message that goes past the caches, and one that does not, is
/// asked for.
kernels::FoldModifiers folded(std::size_t bytes, std::uint64_t by_program) {
  PastCaches past(bytes);
  test::Queue usual;
  execution::Program program;
  program.kernel = note;
  program.stride = program.piece = program.message_bytes = bytes;
  program.max_operands = 3;
  program.sources.resize(2);
  program.sinks.resize(3);
  program.sinks[0].base = execution::Base::output;
  program.sinks[1].sender = &past;
  program.sinks[2].sender = &usual;
  execution::Instruction fold;
  fold.sources = 2;
  fold.sinks = 3;
  fold.bytes = bytes;
  fold.streaming_sinks = by_program;
  program.lanes.push_back({{{fold}, 1}});
  std::vector<std::byte> input(bytes), output(bytes);
  execution::Execution execution;
  execution.begin(program, {.input = input.data(), .output = output.data()}, 1);
  asked_for = {};
  EXPECT_TRUE(execution.advance());
  EXPECT_TRUE(execution.done());
  return asked_for;
}

TEST(Stores, OnlyTheMessageThatAsksForItGoesPastTheCaches) {
  EXPECT_EQ(folded(8192, 0).streaming_sinks, 0b010U);
}

TEST(Stores, ResultsGoTheirOwnWay) { EXPECT_EQ(folded(8192, 0b001).streaming_sinks, 0b011U); }

TEST(Stores, OfOtherMessagesTheLinesAreAskedForAhead) { EXPECT_EQ(folded(8192, 0).shared_sinks, 0b100U); }

TEST(Stores, ShortMessagesDoNotAsk) {
  EXPECT_EQ(folded(512, 0).streaming_sinks, 0U);
  EXPECT_EQ(folded(512, 0).shared_sinks, 0U);
}

}  // namespace

}  // namespace tutti
