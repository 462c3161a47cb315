// How lanes take turns.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "communicator/select.hpp"
#include "communicator/task.hpp"
#include "execution/executor.hpp"

namespace tutti {

namespace {

constexpr std::uint64_t piece = std::uint64_t{64} << 10;

/// Two lanes, each of which copies one half of the input, in pieces.
execution::Program two_copies(std::uint64_t bytes_a_lane) {
  execution::Program program;
  program.piece = program.stride = program.message_bytes = piece;
  for (std::uint32_t lane = 0; lane < 2; ++lane) {
    program.sources.push_back({.base = execution::Base::input, .offset = lane * bytes_a_lane});
    program.sinks.push_back({.base = execution::Base::output, .offset = lane * bytes_a_lane});
    execution::Instruction copy;
    copy.kind = execution::Instruction::Kind::copy;
    copy.first_source = copy.first_sink = lane;
    copy.sources = copy.sinks = 1;
    copy.bytes = bytes_a_lane;
    program.lanes.push_back({{{copy}, bytes_a_lane / piece}});
  }
  return program;
}

std::int64_t copied(const std::vector<std::byte>& output, std::uint64_t lane) {
  const auto half = static_cast<std::ptrdiff_t>(output.size() / 2);
  const auto begin = output.begin() + static_cast<std::ptrdiff_t>(lane) * half;
  return std::count(begin, begin + half, std::byte{1});
}

TEST(Lanes, OfLongMessagesMakeWayForEachOther) {
  constexpr std::uint64_t go = transport::bytes_in_one_go;
  const execution::Program program = two_copies(3 * go);
  const std::vector<std::byte> input(6 * go, std::byte{1});
  std::vector<std::byte> output(input.size());
  execution::Execution execution;
  execution.begin(program, {.input = input.data(), .output = output.data()}, 1);
  for (std::int64_t turn = 1; turn <= 3; ++turn) {
    EXPECT_TRUE(execution.advance());
    EXPECT_EQ(copied(output, 0), turn * static_cast<std::int64_t>(go));
    EXPECT_EQ(copied(output, 1), turn * static_cast<std::int64_t>(go));
  }
  EXPECT_TRUE(execution.done());
}

TEST(Lanes, OfTheLongestMessagesTakeOneATurn) {
  execution::Program program = two_copies(2 * transport::bytes_in_one_go);
  program.message_bytes = 2 * transport::bytes_in_one_go;  // another step has such
  const std::vector<std::byte> input(4 * transport::bytes_in_one_go, std::byte{1});
  std::vector<std::byte> output(input.size());
  execution::Execution execution;
  execution.begin(program, {.input = input.data(), .output = output.data()}, 1);
  EXPECT_TRUE(execution.advance());
  EXPECT_EQ(copied(output, 0), static_cast<std::int64_t>(piece));
  EXPECT_EQ(copied(output, 1), static_cast<std::int64_t>(piece));
}

/// Has room for one part of a message now and then.
class InParts final : public transport::Sender {
 public:
  std::byte* try_reserve(std::size_t) override { return nullptr; }
  void publish(std::size_t, transport::Tag) override {}
  bool try_send(const std::byte*, std::size_t, transport::Tag, bool) override { return left == 0; }
  bool sent_part() override { return has_room && left-- != 0; }
  bool flushed() override { return is_flushed; }
  [[nodiscard]] bool flushes_late() const override { return !is_flushed; }
  bool has_room = true;
  bool is_flushed = true;
  int left = 2;
};

execution::Program one_send(InParts& sender) {
  execution::Program program = two_copies(piece);
  program.lanes.resize(1);
  program.lanes[0][0].instructions[0].kind = execution::Instruction::Kind::send;
  program.sinks[0].sender = &sender;
  return program;
}

// Else a message that takes long would be a rank that waits, sleeps, and is given up at last.
TEST(Lanes, MoveWhenAPartOfAMessageDoes) {
  InParts sender;
  const execution::Program program = one_send(sender);
  const std::vector<std::byte> input(2 * piece);
  execution::Execution execution;
  execution.begin(program, {.input = input.data()}, 1);
  EXPECT_TRUE(execution.advance());
  sender.has_room = false;
  EXPECT_FALSE(execution.advance());
  sender.has_room = true;
  EXPECT_TRUE(execution.advance());
  EXPECT_FALSE(execution.done());
  EXPECT_TRUE(execution.advance());
  EXPECT_TRUE(execution.done());
}

// Before, there is something to do.
TEST(Lanes, WaitForALateFlushOnceAllIsSent) {
  InParts sender;
  execution::Program program = one_send(sender);
  program.flushes = true;
  sender.is_flushed = false;
  const std::vector<std::byte> input(2 * piece);
  execution::Execution execution;
  execution.begin(program, {.input = input.data()}, 1);
  EXPECT_FALSE(execution.flushes_late());
  while (execution.advance()) EXPECT_TRUE(sender.left == 0 || !execution.flushes_late());
  EXPECT_FALSE(execution.done());
  EXPECT_TRUE(execution.flushes_late());
  sender.is_flushed = true;
  EXPECT_TRUE(execution.done());
  EXPECT_FALSE(execution.flushes_late());
}

class NoPeers final : public execution::PeerMemory {
 public:
  std::byte* at(Rank, execution::Base, std::uint64_t) override { return nullptr; }
  void read(Rank, execution::Base, std::uint64_t, std::byte*, std::size_t) override {}
  void write(Rank, execution::Base, std::uint64_t, const std::byte*, std::size_t) override {}
};

TEST(Lanes, LeaveTheBuffersOfOthersSoon) {
  const execution::Program program = two_copies(transport::bytes_in_one_go);
  const std::vector<std::byte> input(2 * transport::bytes_in_one_go, std::byte{1});
  std::vector<std::byte> output(input.size());
  NoPeers peers;
  execution::Execution execution;
  execution.begin(program, {.input = input.data(), .output = output.data(), .peers = &peers}, 1);
  EXPECT_TRUE(execution.advance());
  EXPECT_EQ(copied(output, 0), static_cast<std::int64_t>(piece));
  EXPECT_EQ(copied(output, 1), static_cast<std::int64_t>(piece));
}

// Who waits does not see that a rank moves before it is done with a piece, nor gets its buffers back.
TEST(Lanes, WorkOnBuffersOfOthersPieceByPiece) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::broadcast, Collective::all_to_all})
    for (const bool attach_only : {false, true}) {
      Circumstances call;
      call.collective = collective;
      call.bytes = std::size_t{1} << 30U;
      call.ranks = 2;
      call.one_sided = true;
      call.attach_only = attach_only;
      const Choice choice = select(call);
      ASSERT_NE(choice.algorithm, nullptr);
      EXPECT_LE(choice.piece, std::size_t{32} << 20U) << choice.algorithm->name;
    }
}

// It may be as much as a call has data, and tasks are kept for other calls.
TEST(Lanes, GiveBackWhatTheyHaveReadOfOthers) {
  constexpr std::uint64_t bytes = 4 * piece;
  execution::Program program = two_copies(bytes);
  program.lanes.resize(1);
  program.stride = program.message_bytes = bytes;
  program.max_operands = 2;
  program.kernel = kernels::fold_for(DataType::uint8, ReduceOp::sum);
  for (execution::Source& source : program.sources) source.base = execution::Base::peer_input;
  execution::Part& part = program.lanes[0][0];
  part.iterations = 1;
  part.instructions[0].kind = execution::Instruction::Kind::fold;
  part.instructions[0].sources = 2;
  std::vector<std::byte> output(bytes);
  NoPeers peers;
  Task task;
  task.execution.begin(program, {.output = output.data(), .peers = &peers}, 1);
  EXPECT_TRUE(task.execution.advance());
  EXPECT_TRUE(task.execution.done());
  EXPECT_EQ(task.execution.staged(), 2 * bytes);
  task.give_back();
  EXPECT_EQ(task.execution.staged(), 0U);
}

}  // namespace

}  // namespace tutti
