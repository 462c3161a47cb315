/// \file
/// How long messages are: the piece of a chunk that goes through a schedule at a time. Figures behind the
/// numbers: docs/experiments.md.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <tutti/schedule.hpp>

namespace tutti::tuning {

/// Bytes of a chunk a message, wanted. `bytes`: nccl-tests' size of the call. `transport`: as of Scene.
inline std::size_t piece(Collective collective, std::size_t bytes, int ranks, std::string_view transport) {
  constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;
  if (transport == "tcp") {
    if (ranks != 2) return 256 * KiB;
    // docs/experiments-devices.md. Phases of an all_reduce of a MiB or more overlap: a chunk has two pieces.
    return collective == Collective::all_reduce ? std::clamp(bytes / 4, 256 * KiB, 512 * KiB) : 512 * KiB;
  }
  if (transport != "shm") return 1 * MiB;
  if (bytes >= 4 * MiB) return 64 * KiB;
  // At least two pieces of each chunk of an all_reduce, so that its phases overlap.
  const std::size_t parts = static_cast<std::size_t>(ranks) * (collective == Collective::all_reduce ? 2 : 1);
  return std::clamp<std::size_t>(bytes / parts, 8 * KiB, 32 * KiB);
}

}  // namespace tutti::tuning
