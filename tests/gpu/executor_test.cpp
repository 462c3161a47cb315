// The device executor on host threads: every built-in algorithm against the CPU executor, bit by bit.
#include <gtest/gtest.h>

#include <random>

#include "collectives/algorithms.hpp"
#include "communicator/plan.hpp"
#include "gpu/device_ranks.hpp"
#include "gpu/in_turn.hpp"
#include "kernels/fixture.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

Operation operation_of(Collective collective) { return static_cast<Operation>(collective); }

struct Case {
  const Algorithm* algorithm;
  int ranks;
  std::size_t count;  ///< as in Call
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  std::size_t piece = 256;
  DeviceRanks::Settings device{};
};

std::vector<RankBuffers> random_buffers(const Case& c, const Call& call, std::mt19937_64& random) {
  std::vector<RankBuffers> all(static_cast<std::size_t>(c.ranks));
  for (Rank r = 0; r < c.ranks; ++r) {
    const auto shape = shape_of(call, r, c.ranks);
    const auto bytes = [&](const auto& extents) {
      std::size_t end = shape.divisible ? shape.total : 0;
      for (const auto& e : extents) end = std::max(end, e.offset + e.bytes);
      return end;
    };
    auto& buffers = all[static_cast<std::size_t>(r)];
    buffers.input = random_elements(c.type, random, bytes(shape.input) / size_of(c.type));
    buffers.output.resize(bytes(shape.output), std::byte{0xEE});
  }
  return all;
}

void compare(const Case& c) {
  SCOPED_TRACE(std::string(c.algorithm->name) + " of " + std::string(name(c.algorithm->collective)) + ", " +
               std::to_string(c.ranks) + " ranks, " + std::to_string(c.count) + " x " +
               std::string(name(c.type)) + ", " + std::string(name(c.op)) + ", slices " +
               std::to_string(c.device.slices));
  std::mt19937_64 random{c.count + static_cast<std::size_t>(c.ranks)};
  Call call{.operation = operation_of(c.algorithm->collective),
            .type = c.type,
            .reduction = c.op,
            .count = c.count};
  const Rank root = c.ranks - 1;
  call.root = root;
  const Schedule schedule = c.algorithm->make(c.ranks, root, std::max(1, c.ranks / 2));
  execution::LowerSettings settings;
  settings.sends_apart = 0;
  settings.piece = c.piece;
  settings.max_message = c.algorithm->one_sided ? execution::unlimited : c.device.slot_bytes;
  settings.type = c.type;
  settings.op = c.op;
  settings.one_sided = c.algorithm->one_sided;

  auto wanted = random_buffers(c, call, random);
  auto got = wanted;
  Queues queues;
  std::vector<execution::Program> programs;
  DeviceRanks ranks(c.ranks, c.device);
  std::vector<std::vector<std::byte>> flat;
  for (Rank r = 0; r < c.ranks; ++r) {
    QueueChannels channels(queues, r);
    programs.push_back(execution::lower(schedule, execution::overview_of(schedule), r,
                                        shape_of(call, r, c.ranks), settings, channels));
    gpu::NamedChannels named;
    auto program = execution::lower(schedule, execution::overview_of(schedule), r, shape_of(call, r, c.ranks),
                                    settings, named);
    programs.back().divisor = program.divisor = c.op == ReduceOp::average ? c.ranks : 1;
    gpu::FlattenSettings flattening{c.type, c.op, c.algorithm->one_sided, c.device.slices,
                                    c.device.packet_bytes};
    flat.push_back(gpu::flatten(program, flattening));
  }
  run_in_turn(programs, wanted);
  for (int time = 0; time < 2; ++time) {  // FIFOs go on where they were
    for (auto& buffers : got) std::fill(buffers.output.begin(), buffers.output.end(), std::byte{0xEE});
    ranks.run(flat, got);
    for (Rank r = 0; r < c.ranks; ++r) {
      const auto& report = ranks.report(r);
      ASSERT_EQ(report.cause, 0U) << "rank " << r << " gave up waiting for " << report.peer;
      ASSERT_TRUE(got[static_cast<std::size_t>(r)].output == wanted[static_cast<std::size_t>(r)].output)
          << "rank " << r << ", run " << time;
    }
  }
}

class DeviceExecutor : public testing::TestWithParam<const Algorithm*> {};

TEST_P(DeviceExecutor, AgreesWithTheProcessors) {
  if (GetParam()->collective == Collective::barrier) {
    for (const int ranks : {2, 3, 8}) compare({GetParam(), ranks, 0});
    return;
  }
  compare({GetParam(), 2, 1});
  compare({GetParam(), 3, 37});  // in packets
  compare({.algorithm = GetParam(), .ranks = sanitized ? 4 : 8, .count = 100, .device = {.threads = 1}});
  compare({.algorithm = GetParam(), .ranks = 3, .count = 1501, .device = {.slices = 2, .threads = 2}});
  compare({.algorithm = GetParam(), .ranks = 5, .count = 611, .device = {.threads = 1}});
  compare(
      {.algorithm = GetParam(), .ranks = 3, .count = 300, .device = {.threads = 2, .far_programs = true}});
}

std::string algorithm_name(const testing::TestParamInfo<const Algorithm*>& info) {
  return std::string(name(info.param->collective)) + "_" + std::string(info.param->name);
}
std::vector<const Algorithm*> all_algorithms() {
  std::vector<const Algorithm*> all;
  for (const Algorithm& a : algorithms()) all.push_back(&a);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, DeviceExecutor, testing::ValuesIn(all_algorithms()), algorithm_name);

TEST(DeviceExecutorTypes, AllReduceInEveryTypeAndOperation) {
  for (const DataType type : all_types)
    for (const ReduceOp op : all_ops)
      for (const std::size_t count : {11, 300})  // in packets, and in slots
        compare({.algorithm = find_algorithm(Collective::all_reduce, "ring"),
                 .ranks = 3,
                 .count = count,
                 .type = type,
                 .op = op,
                 .device = {.threads = 1, .packet_bytes = 64}});
}

// Flags are of 32 bits, and one of them has a meaning.
TEST(DeviceExecutorFlags, GoRound) {
  for (std::uint64_t before = (std::uint64_t{1} << 32) - 4; before <= std::uint64_t{1} << 32; ++before)
    for (const char* name : {"ring", "direct", "direct_pull"})
      for (const std::size_t count : {37, 300})  // in packets, and in slots
        compare({.algorithm = find_algorithm(Collective::all_reduce, name),
                 .ranks = 3,
                 .count = count,
                 .device = {.threads = 1, .before = before}});
}

TEST(DeviceExecutorSlices, AnyNumberOfThemGivesTheSameBits) {
  for (const int slices : {1, 3, 4})
    for (const char* name : {"ring", "double_tree", "direct", "direct_pull"})
      compare({.algorithm = find_algorithm(Collective::all_reduce, name),
               .ranks = 4,
               .count = 5003,
               .type = DataType::bfloat16,
               .piece = 128,
               .device = {.slices = slices, .threads = 1}});
}

}  // namespace
}  // namespace tutti::test
