/// \file
/// Blocks of the caller's buffers whose sizes and places only the device knows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/target.hpp"

namespace tutti::gpu::device {

/// Of one buffer: a block for every rank. In elements. Displacements of empty blocks are not looked at.
struct Blocks {
  const std::uint64_t* counts = nullptr;
  const std::uint64_t* displacements = nullptr;  ///< nullptr: they follow each other
  std::uint64_t room = 0;                        ///< what the buffer holds

  [[nodiscard]] TUTTI_DEVICE std::uint64_t displacement(int rank) const {
    if (displacements != nullptr) return counts[rank] == 0 ? 0 : displacements[rank];
    std::uint64_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += counts[r];
    return sum;
  }
  /// The blocks up to that of `rank` lie in the buffer.
  [[nodiscard]] TUTTI_DEVICE bool holds(int rank) const {
    if (displacements != nullptr)
      return counts[rank] == 0 || (counts[rank] <= room && displacements[rank] <= room - counts[rank]);
    std::uint64_t left = room;
    for (int r = 0; r <= rank; ++r) {
      if (counts[r] > left) return false;
      left -= counts[r];
    }
    return true;
  }
};

struct Counts {
  Blocks input, output;
  std::uint64_t element_bytes = 0;
};

}  // namespace tutti::gpu::device
