/// \file
/// Bad calls are refused before anything is sent.
#pragma once

#include <cstddef>

#include <tutti/call.hpp>

namespace tutti {

/// What a call's buffers look like on this rank.
struct Sizes {
  std::size_t in_bytes = 0, out_bytes = 0;
  bool in_place = false;
};

/// Throws Error(invalid_argument) for null pointers with counts, overlap that is not in place, unknown types
/// and operations, roots out of range, sizes that overflow, count arrays of another length than the number of
/// ranks.
Sizes check(const Call& call, Rank rank, int size);

}  // namespace tutti
