// For whom a rank waits, and whether that one shares its processor: what decides when it yields.
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <chrono>
#include <vector>

#include "collectives/algorithms.hpp"
#include "execution/executor.hpp"
#include "execution/lower.hpp"
#include "shm_ranks.hpp"
#include "transport_channels.hpp"

namespace tutti::transport::testing {

namespace {

using namespace std::chrono_literals;

constexpr int members = 4;

// An all_to_all of `bytes` a block, one Execution a rank, all moved by this thread.
class Waits : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    const Schedule schedule = find_algorithm(Collective::all_to_all, "pairwise")->make(members, 0);
    execution::Shape shape;
    for (std::size_t i = 0; i < members; ++i) shape.input.push_back({i * GetParam(), GetParam()});
    shape.output = shape.input;
    execution::LowerSettings settings;
    settings.piece = settings.max_message = ranks_[0]->max_message_bytes();
    for (Rank rank = 0; rank < members; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      TransportChannels channels(*ranks_[r]);
      programs_[r] =
          execution::lower(schedule, execution::overview_of(schedule), rank, shape, settings, channels);
      input_[r].assign(members * GetParam(), static_cast<std::byte>(r + 1));
      output_[r].resize(members * GetParam());
      executions_[r].begin(programs_[r], {.input = input_[r].data(), .output = output_[r].data()}, 1);
    }
  }
  // Until it cannot go on by itself.
  void advance(Rank rank) {
    while (executions_[static_cast<std::size_t>(rank)].advance()) {
    }
  }
  [[nodiscard]] bool waits(Rank rank, std::array<std::uint8_t, members> for_any_of, bool soon = true) const {
    return executions_[static_cast<std::size_t>(rank)].waits_for_any(for_any_of, soon);
  }

  Transports ranks_ = shm_ranks(members);
  std::array<execution::Program, members> programs_;
  std::array<execution::Execution, members> executions_;
  std::array<std::vector<std::byte>, members> input_, output_;
};

TEST_P(Waits, AreForThoseWhoseMessageIsMissingInWhateverOrder) {
  advance(0);
  EXPECT_TRUE(waits(0, {0, 1, 0, 0}));
  EXPECT_TRUE(waits(0, {0, 0, 0, 1}));
  EXPECT_FALSE(waits(0, {1, 0, 0, 0}));
  EXPECT_FALSE(waits(0, {0, 0, 0, 0}));
  EXPECT_TRUE(waits(0, {0, 0, 0, 1}, false));  // whose is next
  EXPECT_FALSE(waits(0, {0, 1, 1, 0}, false));
  advance(1);  // the last of those that rank 0 takes messages from
  advance(0);
  EXPECT_FALSE(waits(0, {0, 1, 0, 0}));
  EXPECT_TRUE(waits(0, {0, 0, 1, 1}));
  advance(2);
  EXPECT_TRUE(waits(0, {0, 0, 0, 1}));
  EXPECT_FALSE(waits(0, {0, 1, 1, 0}));
  for (const Rank rank : {3, 0, 1, 2}) advance(rank);
  for (std::size_t r = 0; r < members; ++r) {
    EXPECT_TRUE(executions_[r].done());
    EXPECT_FALSE(waits(static_cast<Rank>(r), {1, 1, 1, 1}));
    for (std::size_t from = 0; from < members; ++from)
      EXPECT_EQ(output_[r][from * GetParam()], static_cast<std::byte>(from + 1));
  }
}

TEST_P(Waits, AreForThoseWhoHaveNoRoomToo) {
  for (const Rank rank : {1, 2, 3}) advance(rank);
  const std::vector<std::byte> message(GetParam());
  while (ranks_[0]->sender(1, 0).try_send(message.data(), message.size(), 1, false)) {
  }
  advance(0);  // has received everything, and cannot send to rank 1
  EXPECT_TRUE(waits(0, {0, 1, 0, 0}));
  EXPECT_FALSE(waits(0, {0, 0, 1, 1}));
}

INSTANTIATE_TEST_SUITE_P(OfLinesAndSlots, Waits, ::testing::Values(4, 400, 40'000),
                         ::testing::PrintToStringParamName());

using ShortMessages = Waits;

TEST_P(ShortMessages, AreAllHandledInOneGo) {
  for (Rank rank = 0; rank < members; ++rank) executions_[static_cast<std::size_t>(rank)].advance();
  EXPECT_TRUE(executions_[members - 1].done());
}

INSTANTIATE_TEST_SUITE_P(OfLines, ShortMessages, ::testing::Values(4, 400),
                         ::testing::PrintToStringParamName());

// The thread's processors, put back in the end.
class Bound {
 public:
  Bound() { sched_getaffinity(0, sizeof before_, &before_); }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;
  ~Bound() { sched_setaffinity(0, sizeof before_, &before_); }
  [[nodiscard]] int processors() const { return CPU_COUNT(&before_); }
  // To the n-th of its processors.
  void to(int n) const {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &before_) && n-- == 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
        return;
      }
    FAIL();
  }

 private:
  cpu_set_t before_{};
};

// Three ranks whose threads are this one, which begins on the first processor.
class Neighbours : public ::testing::Test {
 protected:
  void SetUp() override { bound_.to(0); }
  [[nodiscard]] shm::ShmTransport& at(Rank rank) const {
    return static_cast<shm::ShmTransport&>(*ranks_[static_cast<std::size_t>(rank)]);
  }
  Transports ranks_ = shm_ranks(3);
  Bound bound_;
};

TEST_F(Neighbours, AreThoseThatLastLeftThisProcessor) {
  EXPECT_EQ(at(0).beside()[1], 0) << "nobody has said where it is";
  at(1).leave_processor(0ns);
  EXPECT_NE(at(0).beside()[1], 0);
  EXPECT_EQ(at(0).beside()[2], 0);
  at(0).leave_processor(0ns);
  EXPECT_EQ(at(0).beside()[0], 0) << "nobody is beside itself";
  if (bound_.processors() < 2) GTEST_SKIP() << "one processor: nobody can be on another one";
  bound_.to(1);
  EXPECT_EQ(at(0).beside()[1], 0);
  at(1).leave_processor(0ns);
  EXPECT_NE(at(0).beside()[1], 0);
  bound_.to(0);
  at(1).leave_processor(0ns);
  at(2).leave_processor(0ns);
  bound_.to(1);
  EXPECT_EQ(at(0).beside()[1], 0) << "it left for another one";
}

TEST_F(Neighbours, AndThoseWhoLeftTheirProcessorsAreAbsent) {
  at(1).leave_processor(0ns);
  at(2).leave_processor(0ns);
  at(2).be_back();
  EXPECT_NE(at(0).absent()[1], 0);
  EXPECT_NE(at(0).absent()[2], 0) << "it cannot run while this thread does";
  EXPECT_EQ(at(0).absent()[0], 0);
  if (bound_.processors() < 2) GTEST_SKIP() << "one processor: nobody can be on another one";
  bound_.to(1);
  EXPECT_NE(at(0).absent()[1], 0);
  EXPECT_EQ(at(0).absent()[2], 0);
  at(1).be_back();
  EXPECT_EQ(at(0).absent()[1], 0);
}

TEST_F(Neighbours, AreWhoUsedTheProcessorWhileThisRankWasAway) {
  at(0).leave_processor(5ms);
  EXPECT_FALSE(at(0).ranks_used(1ms)) << "its own work does not count";
  at(1).leave_processor(500us);
  EXPECT_FALSE(at(0).ranks_used(1ms));
  at(2).leave_processor(300us);
  EXPECT_TRUE(at(0).ranks_used(1ms));
  EXPECT_FALSE(at(0).ranks_used(2ms));
  at(0).leave_processor(0ns);
  EXPECT_FALSE(at(0).ranks_used(1ms)) << "what was before does not count";
  if (bound_.processors() < 2) GTEST_SKIP() << "one processor: nobody can work on another one";
  bound_.to(1);
  at(1).leave_processor(5ms);
  EXPECT_FALSE(at(0).ranks_used(1ms)) << "what they do elsewhere does not count";
}

}  // namespace

}  // namespace tutti::transport::testing
