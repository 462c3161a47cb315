// What is proved of a schedule holds of what runs: accepted mutants, lowered for sizes that are cut into
// pieces, and are no multiple of their chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <tutti/error.hpp>
#include <tutti/verify.hpp>

#include "collectives/algorithms.hpp"
#include "collectives/facts.hpp"
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

bool runs_in_place(const Schedule& schedule) {
  return !verify(schedule, {.credits = 0, .pieces = 3, .in_place = true});
}

bool can_be_in_place(const Schedule& schedule, Rank rank) {
  return rank == schedule.root ||
         (!only_root_has_input(schedule.collective) && !only_root_has_output(schedule.collective));
}

std::size_t bytes_of(const execution::Shape& shape, const std::vector<execution::Shape::Extent>& extents) {
  std::size_t end = shape.divisible ? shape.total : 0;
  for (const auto& e : extents) end = std::max(end, e.offset + e.bytes);
  return end;
}

// Of one rank, each with a guard behind it; in place the smaller one is the rank's block of the larger one.
class Memory {
 public:
  Memory(const execution::Shape& shape, Rank rank, bool in_place)
      : in_place_(in_place),
        in_bytes_(bytes_of(shape, shape.input)),
        out_bytes_(bytes_of(shape, shape.output)),
        input_(in_bytes_ + guard_bytes, untouched),
        output_((in_place ? std::max(in_bytes_, out_bytes_) : out_bytes_) + guard_bytes, untouched) {
    const auto own = static_cast<std::size_t>(rank);
    if (in_place && in_bytes_ < out_bytes_) input_at_ = own * in_bytes_;
    if (in_place && out_bytes_ < in_bytes_) output_at_ = own * out_bytes_;
    std::vector<int> numbers(in_bytes_ / sizeof(int));
    std::iota(numbers.begin(), numbers.end(), 1'000'000 * (rank + 1));
    if (!numbers.empty()) std::memcpy(input(), numbers.data(), in_bytes_);
  }
  [[nodiscard]] execution::Buffers buffers() {
    return {input(), output_.data() + output_at_, nullptr, nullptr};
  }
  /// And what is behind all.
  [[nodiscard]] std::vector<std::byte> output() const {
    const auto at = [&](std::size_t offset) { return output_.begin() + static_cast<std::ptrdiff_t>(offset); };
    std::vector<std::byte> found(at(output_at_), at(output_at_ + out_bytes_));
    found.insert(found.end(), at(output_.size() - guard_bytes), output_.end());
    return found;
  }

 private:
  static constexpr std::byte untouched{0xEE};
  [[nodiscard]] std::byte* input() { return (in_place_ ? output_ : input_).data() + input_at_; }

  bool in_place_;
  std::size_t in_bytes_, out_bytes_, input_at_ = 0, output_at_ = 0;
  std::vector<std::byte> input_, output_;
};

// Of all ranks, of which those from `in_place_from` on call in place.
std::vector<std::vector<std::byte>> outputs(const Schedule& schedule, std::size_t count, Rank in_place_from) {
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
  std::vector<Memory> all;
  for (Rank r = 0; r < schedule.ranks; ++r) {
    const auto shape = shape_of(call, r, schedule.ranks);
    settings.in_place = r >= in_place_from && can_be_in_place(schedule, r);
    all.emplace_back(shape, r, settings.in_place);
    QueueChannels channels(queues, r);
    programs.push_back(
        execution::lower(schedule, execution::overview_of(schedule), r, shape, settings, channels));
  }
  std::vector<execution::Buffers> buffers;
  for (Memory& memory : all) buffers.push_back(memory.buffers());
  run_in_turn(programs, std::move(buffers));
  std::vector<std::vector<std::byte>> found;
  for (const Memory& memory : all) found.push_back(memory.output());
  return found;
}

TEST(Mutants, ThatAreAcceptedRunRight) {
  Random random(5);
  int accepted = 0, in_place = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.one_sided || algorithm.collective == Collective::barrier) continue;
    for (int trial = 0; trial < (sanitized ? 20 : 200); ++trial) {
      const int ranks = 2 + static_cast<int>(below(random, 4));
      const Schedule original = algorithm.make(ranks, static_cast<Rank>(trial % ranks));
      Schedule mutant = original;
      mutate(mutant, random);
      if (mutant == original || !runs(mutant)) continue;
      ++accepted;
      const bool also_in_place = runs_in_place(mutant);
      in_place += also_in_place ? 1 : 0;
      for (const std::size_t count : {1, 33, 700}) {
        const auto wanted = outputs(original, count, ranks);
        for (const Rank in_place_from : {ranks, 0, 1}) {
          if (in_place_from < ranks && !also_in_place) continue;
          ASSERT_EQ(outputs(mutant, count, in_place_from), wanted)
              << count << " elements, in place from rank " << in_place_from << " on\n"
              << to_text(mutant) << "mutated from\n"
              << to_text(original);
        }
      }
    }
  }
  EXPECT_GT(accepted, sanitized ? 20 : 200);
  EXPECT_GT(in_place, accepted / 4);
}

}  // namespace
}  // namespace tutti::test
