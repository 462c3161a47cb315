/// \file
/// Symbolic values: what a chunk holds, as the multiset of contributions in it and the expression that made
/// it.
#pragma once

#include <array>
#include <cstdint>

#include <tutti/types.hpp>

namespace tutti::proof {

/// The value of a chunk. Two values are the same data exactly if their `contributions` are equal, and bitwise
/// the same result if their `expression` is.
///
/// A multiset is kept as the sum of one pseudo-random 128-bit weight for every contribution (a multiset hash
/// as of Clarke et al., ASIACRYPT 2003), so that a contribution folded in twice shows.
struct Value {
  std::array<std::uint64_t, 2> contributions{};
  std::uint64_t expression = 0;  ///< with the points where a fold rounds to the element type
  std::uint64_t order = 0;       ///< the same as if every fold were a chain of binary ones
  std::uint32_t count = 0;       ///< contributions, saturating; 0: undefined
  bool finished = false;         ///< a completed reduction

  [[nodiscard]] bool defined() const { return count > 0; }
  [[nodiscard]] bool holds_same(const Value& other) const {
    return count == other.count && contributions == other.contributions;
  }
};

/// What `rank` puts into `chunk` of `piece`.
Value contribution(Rank rank, int chunk, int piece);

/// `value` + `source`. The operation is commutative and not associative. Not rounded yet.
void add(Value& value, const Value& source);

/// Ends a fold of several sources: one rounding to the element type, however many there were.
void round(Value& value);

}  // namespace tutti::proof
