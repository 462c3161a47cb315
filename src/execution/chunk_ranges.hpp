/// \file
/// Which chunks of a divisible buffer each step of a rank is about.
#pragma once

#include <cstdint>
#include <vector>

#include <tutti/schedule.hpp>

namespace tutti::execution {

struct ChunkRange {
  std::int32_t first = 0, count = 0;
};

/// One range a step, [lane][step]. Steps that name input or output say it themselves; steps on scratch and
/// messages alone are found by following the messages of all ranks (only then is more than `rank`'s lanes
/// looked at). The schedule must have been proved. Throws Error(invalid_schedule) when a step moves parts of
/// chunks that do not belong together.
std::vector<std::vector<ChunkRange>> chunk_ranges(const Schedule& schedule, Rank rank);

}  // namespace tutti::execution
