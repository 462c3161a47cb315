// Waits of the device executor that nobody ends: deadline, abort, calls that differ.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "collectives/algorithms.hpp"
#include "gpu/device_ranks.hpp"

namespace tutti::test {
namespace {

using gpu::device::Cause;

std::vector<std::byte> ring_program(int ranks, Rank rank, std::size_t packet_bytes) {
  execution::Shape shape;
  shape.divisible = true;
  shape.total = 256;
  execution::LowerSettings settings;
  settings.sends_apart = 0;
  settings.piece = settings.max_message = 1024;
  settings.type = DataType::int32;
  gpu::NamedChannels named;
  const Schedule ring = find_algorithm(Collective::all_reduce, "ring")->make(ranks, 0);
  const auto program = execution::lower(ring, execution::overview_of(ring), rank, shape, settings, named);
  return gpu::flatten(program, {DataType::int32, ReduceOp::sum, false, 1, packet_bytes});
}

/// With packets, and with slots.
class DeviceFailures : public testing::TestWithParam<std::size_t> {
 protected:
  std::vector<std::vector<std::byte>> programs(int ranks, int present) const {
    std::vector<std::vector<std::byte>> flat(static_cast<std::size_t>(ranks));
    for (Rank r = 0; r < present; ++r) flat[static_cast<std::size_t>(r)] = ring_program(ranks, r, GetParam());
    return flat;
  }
  std::vector<RankBuffers> buffers =
      std::vector<RankBuffers>(3, {std::vector<std::byte>(256), std::vector<std::byte>(256)});
};
INSTANTIATE_TEST_SUITE_P(Forms, DeviceFailures, testing::Values(256, 0), testing::PrintToStringParamName());

TEST_P(DeviceFailures, ADeadlineNamesRankAndLaunch) {
  DeviceRanks ranks(3, {.packet_bytes = 256, .timeout_ns = 50'000'000});
  ranks.run(programs(3, 2), buffers);  // rank 2 does not come
  for (const Rank r : {0, 1}) {
    const auto& report = ranks.report(r);
    EXPECT_EQ(report.cause, static_cast<std::uint32_t>(Cause::timeout)) << r;
    EXPECT_EQ(report.sequence, 1U);
  }
  EXPECT_EQ(ranks.report(0).peer, 2);  // who sends to rank 0
}

TEST_P(DeviceFailures, AnAbortEndsTheWait) {
  DeviceRanks ranks(3, {.packet_bytes = 256});
  std::thread aborting([&] {
    for (const Rank r : {0, 1}) gpu::device::store_release_system(&ranks.control(r).abort, 1U);
  });
  ranks.run(programs(3, 2), buffers);
  aborting.join();
  for (const Rank r : {0, 1})
    EXPECT_EQ(ranks.report(r).cause, static_cast<std::uint32_t>(Cause::aborted)) << r;
}

TEST_P(DeviceFailures, ADifferentCallIsFoundWhereItArrives) {
  // Nobody tells the other one, which may not have been sent what would tell it.
  DeviceRanks ranks(2, {.packet_bytes = 256, .timeout_ns = 2'000'000'000});
  ranks.run(programs(2, 2), buffers, 1);  // the second rank's tag is another
  constexpr std::array<std::uint32_t, 2> tags{7, 8};
  const auto mismatch = static_cast<std::uint32_t>(Cause::mismatch);
  const std::size_t finds = ranks.report(0).cause == mismatch ? 0 : 1;
  const auto& report = ranks.report(static_cast<Rank>(finds));
  EXPECT_EQ(report.cause, mismatch);
  EXPECT_EQ(report.peer, static_cast<Rank>(1 - finds));
  EXPECT_EQ(report.expected, tags[finds]);
  EXPECT_EQ(report.found, tags[1 - finds]);
}

TEST_P(DeviceFailures, AfterAFailureNothingRuns) {
  DeviceRanks ranks(2, {.packet_bytes = 256, .timeout_ns = 20'000'000});
  ranks.run(programs(2, 1), buffers);
  ASSERT_EQ(ranks.report(0).cause, static_cast<std::uint32_t>(Cause::timeout));
  const auto before = buffers;
  ranks.run(programs(2, 1), buffers);
  EXPECT_EQ(ranks.report(0).sequence, 1U);
  EXPECT_TRUE(before[0].output == buffers[0].output);
}

}  // namespace
}  // namespace tutti::test
