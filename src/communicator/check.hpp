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

/// Whether it is a v-form.
inline bool has_counts(const Call& call) { return !call.in_counts.empty() || !call.out_counts.empty(); }

/// True when a call is one made before, buffers and all, so that what was found of that one holds. Never for
/// v-forms, whose counts lie in the caller's memory; `before` is none.
inline bool repeats(const Call& call, const Call& before) {
  return call.in == before.in && call.out == before.out && call.count == before.count &&
         call.operation == before.operation && call.type == before.type && call.root == before.root &&
         call.reduction.op == before.reduction.op && call.reduction.factor == before.reduction.factor &&
         call.within == before.within && !has_counts(call);
}

}  // namespace tutti
