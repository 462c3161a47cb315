// Programs of more than 2^31 elements, followed instead of run.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "collectives/algorithms.hpp"
#include "communicator/check.hpp"
#include "communicator/large_counts.hpp"
#include "communicator/plan.hpp"
#include "execution/lower.hpp"
#include "gpu/flatten.hpp"

namespace tutti::test {
namespace {

using LargeRange = std::pair<std::uint64_t, std::uint64_t>;  // from and to

// Bytes [from, to) of a buffer, merged as they come.
class Coverage {
 public:
  void add(std::uint64_t from, std::uint64_t to) {
    if (from == to) return;
    if (const auto before = ranges_.find(from); before != ranges_.end()) {  // the usual case: goes on
      const auto start = before->second;
      ranges_.erase(before);
      from = start;
    }
    const auto [at, first] = ranges_.try_emplace(to, from);
    if (!first) at->second = std::min(at->second, from);
  }
  [[nodiscard]] std::vector<LargeRange> ranges() const {
    std::map<std::uint64_t, std::uint64_t> sorted;  // from, to
    for (const auto& [to, from] : ranges_) sorted[from] = std::max(sorted[from], to);
    std::vector<LargeRange> all;
    for (const auto& [from, to] : sorted)
      if (!all.empty() && from <= all.back().second)
        all.back().second = std::max<std::size_t>(all.back().second, to);
      else
        all.emplace_back(from, to);
    return all;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // to, from
};

struct Moved {
  Coverage read, written;
  std::map<std::pair<Rank, int>, std::uint64_t> sent, received;  // bytes, by peer and channel
};

// What the executor would do, without doing it.
Moved follow(const execution::Program& program) {
  Moved moved;
  const auto touch = [&](const auto& operand, std::uint64_t iteration, std::uint64_t bytes,
                         std::uint32_t segments, execution::Base base, Coverage& coverage) {
    if (operand.base != base) return;
    for (std::uint32_t s = 0; s < segments; ++s) {
      const auto from = operand.offset + iteration * program.stride + s * operand.segment_stride;
      coverage.add(from, from + bytes);
    }
  };
  const auto channel = [](const auto* end) {
    return dynamic_cast<const gpu::NamedChannels::End&>(*end).channel();
  };
  for (const auto& lane : program.lanes)
    for (const execution::Part& part : lane)
      for (const execution::Instruction& step : part.instructions)
        for (std::uint64_t i = 0; i < part.iterations; ++i) {
          const std::uint64_t bytes = program.length(step, i);
          for (std::uint32_t k = 0; k < step.sources; ++k) {
            const execution::Source& source = program.sources[step.first_source + k];
            if (source.receiver == nullptr)
              touch(source, i, bytes, step.segments, execution::Base::input, moved.read);
            else
              moved.received[{source.peer, channel(source.receiver)}] += bytes * step.segments;
          }
          for (std::uint32_t k = 0; k < step.sinks; ++k) {
            const execution::Sink& sink = program.sinks[step.first_sink + k];
            if (sink.sender == nullptr)
              touch(sink, i, bytes, step.segments, execution::Base::output, moved.written);
            else
              moved.sent[{sink.peer, channel(sink.sender)}] += bytes * step.segments;
          }
        }
  return moved;
}

class LargePrograms : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Lower, LargePrograms, testing::ValuesIn(large_counts),
                         testing::PrintToStringParamName());

TEST_P(LargePrograms, MoveEveryByteByEveryAlgorithm) {
  constexpr Rank root = 1;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.one_sided || algorithm.collective == Collective::barrier) continue;
    SCOPED_TRACE(std::string(name(algorithm.collective)) + ' ' + std::string(algorithm.name));
    const LargeCall large(static_cast<Operation>(algorithm.collective), GetParam(), root);
    const Schedule schedule = algorithm.make(large_ranks, root, 2);
    std::vector<Moved> moved;
    for (Rank rank = 0; rank < large_ranks; ++rank) {
      gpu::NamedChannels channels;
      const auto shape = shape_of(large.call, rank, large_ranks);
      const auto program = execution::lower(
          schedule, execution::overview_of(schedule), rank, shape,
          {.piece = 16 << 20, .max_message = execution::unlimited, .type = large.call.type}, channels);
      moved.push_back(follow(program));
      const Sizes sizes = check(large.call, rank, large_ranks);
      const auto whole = [](std::size_t bytes) {
        return bytes == 0 ? std::vector<LargeRange>{} : std::vector{LargeRange{0, bytes}};
      };
      EXPECT_EQ(moved.back().read.ranges(), whole(sizes.in_bytes)) << "input of rank " << rank;
      EXPECT_EQ(moved.back().written.ranges(), whole(sizes.out_bytes)) << "output of rank " << rank;
    }
    for (Rank from = 0; from < large_ranks; ++from)
      for (const auto& [end, bytes] : moved[static_cast<std::size_t>(from)].sent) {
        const auto [to, channel] = end;
        EXPECT_EQ(bytes, (moved[static_cast<std::size_t>(to)].received[{from, channel}]))
            << from << " to " << to;
      }
  }
}

}  // namespace
}  // namespace tutti::test
