// What is proved of a schedule holds of what runs: accepted mutants, lowered for sizes that are cut into
// pieces, and are no multiple of their chunks.
#include <gtest/gtest.h>

#include <numeric>

#include "collectives/algorithms.hpp"
#include "collectives/mutants.hpp"
#include "communicator/plan.hpp"
#include "execution/chunk_ranges.hpp"
#include "gpu/in_turn.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

constexpr std::size_t guard_bytes = 64;

bool reaches_peers(const Schedule& schedule) {
  for (const auto& lanes : schedule.lanes)
    for (const Lane& lane : lanes)
      for (const Step& step : lane)
        for (const auto* operands : {&step.sources, &step.sinks})
          for (const Operand& o : *operands)
            if (o.kind == Operand::Kind::memory && o.rank >= 0) return true;
  return false;
}

bool runs(const Schedule& schedule) {
  if (reaches_peers(schedule) || verify(schedule, {.credits = 0, .pieces = 3})) return false;
  try {
    execution::require_chunks_kept(schedule);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Of all ranks, with a guard behind each.
std::vector<std::vector<std::byte>> outputs(const Schedule& schedule, std::size_t count) {
  Call call{.operation = static_cast<Operation>(schedule.collective), .type = DataType::int32};
  call.count = count;
  call.root = schedule.root;
  execution::LowerSettings settings;
  settings.piece = 128;
  settings.max_message = 1024;
  settings.type = call.type;
  settings.whole_steps = true;
  Queues queues;
  std::vector<execution::Program> programs;
  std::vector<RankBuffers> all;
  for (Rank r = 0; r < schedule.ranks; ++r) {
    const auto shape = shape_of(call, r, schedule.ranks);
    const auto elements = [&](const auto& extents) {
      std::size_t end = shape.divisible ? shape.total : 0;
      for (const auto& e : extents) end = std::max(end, e.offset + e.bytes);
      return end / sizeof(int);
    };
    std::vector<int> input(elements(shape.input));
    std::iota(input.begin(), input.end(), 1'000'000 * (r + 1));
    auto& buffers = all.emplace_back();
    const auto bytes = std::as_bytes(std::span(input));
    buffers.input.assign(bytes.begin(), bytes.end());
    buffers.output.resize(elements(shape.output) * sizeof(int) + guard_bytes, std::byte{0xEE});
    QueueChannels channels(queues, r);
    programs.push_back(
        execution::lower(schedule, execution::overview_of(schedule), r, shape, settings, channels));
  }
  run_in_turn(programs, all);
  std::vector<std::vector<std::byte>> found;
  for (auto& buffers : all) found.push_back(std::move(buffers.output));
  return found;
}

TEST(Mutants, ThatAreAcceptedRunRight) {
  Random random(5);
  int accepted = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.one_sided || algorithm.collective == Collective::barrier) continue;
    for (int trial = 0; trial < (sanitized ? 20 : 200); ++trial) {
      const int ranks = 2 + static_cast<int>(below(random, 4));
      const Schedule original = algorithm.make(ranks, static_cast<Rank>(trial % ranks));
      Schedule mutant = original;
      mutate(mutant, random);
      if (mutant == original || !runs(mutant)) continue;
      ++accepted;
      for (const std::size_t count : {1, 33, 700})
        ASSERT_EQ(outputs(mutant, count), outputs(original, count)) << count << " elements\n"
                                                                    << to_text(mutant) << "mutated from\n"
                                                                    << to_text(original);
    }
  }
  EXPECT_GT(accepted, sanitized ? 20 : 200);
}

}  // namespace
}  // namespace tutti::test
