/// \file
/// Which chunks of a divisible buffer each step of a rank is about.
#pragma once

#include <cstdint>
#include <vector>

#include <tutti/schedule.hpp>

namespace tutti::execution {

struct ChunkRange {
  std::int32_t first = 0, count = 0;
  bool operator==(const ChunkRange&) const = default;
};

/// One range a step, [lane][step]. Steps that name input or output say it themselves; steps on scratch and
/// messages alone are found by following the messages of all ranks (only then is more than `rank`'s lanes
/// looked at). The schedule must have been proved, and `require_chunks_kept` not have thrown.
std::vector<std::vector<ChunkRange>> chunk_ranges(const Schedule& schedule, Rank rank);

/// A proof is about values, and takes all chunks for equally long; the last ones of a divisible buffer are
/// shorter, or empty. Throws Error(invalid_schedule) where a proved schedule moves, as one, chunks that do
/// not follow each other, or keeps one in the place of another in a buffer of the caller.
void require_chunks_kept(const Schedule& schedule);

}  // namespace tutti::execution
