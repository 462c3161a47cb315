/// \file
/// How long messages are: the piece of a chunk that goes through a schedule at a time. Figures behind the
/// numbers: docs/experiments.md.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <tutti/schedule.hpp>

namespace tutti::tuning {

/// Whether a pair of ranks sends both ways at once.
inline bool both_ways(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::all_gather || collective == Collective::all_to_all;
}

/// Bytes of a chunk a message, wanted. `bytes`: nccl-tests' size of the call. `transport`: as of Scene.
inline std::size_t piece(Collective collective, std::size_t bytes, int ranks, std::string_view transport) {
  constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;
  // Measured, docs/experiments-devices.md.
  if (transport == "tcp" && ranks == 2 && both_ways(collective) && bytes < 8 * MiB) return 64 * KiB;
  if (transport != "shm") return 1 * MiB;
  if (bytes >= 4 * MiB) return 64 * KiB;
  // At least two pieces of each chunk of an all_reduce, so that its phases overlap.
  const std::size_t parts = static_cast<std::size_t>(ranks) * (collective == Collective::all_reduce ? 2 : 1);
  return std::clamp<std::size_t>(bytes / parts, 8 * KiB, 32 * KiB);
}

}  // namespace tutti::tuning
