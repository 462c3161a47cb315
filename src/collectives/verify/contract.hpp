/// \file
/// What a collective promises: the buffers of every rank, what they hold before, and what they must hold
/// after.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <tutti/schedule.hpp>

#include "collectives/verify/values.hpp"

namespace tutti::proof {

/// Thrown within the verifier for whatever disproves a schedule; `verify` turns it into a Fault.
struct Flaw {
  std::string what;
};

constexpr bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}
/// Only the root has an input (broadcast, scatter).
constexpr bool only_root_has_input(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::scatter;
}
/// Only the root has an output (reduce, gather).
constexpr bool only_root_has_output(Collective collective) {
  return collective == Collective::reduce || collective == Collective::gather;
}

constexpr bool has_root(Collective collective) {
  return only_root_has_input(collective) || only_root_has_output(collective);
}

/// Chunks in a buffer of `rank`; 0 where the rank has no such buffer.
int chunks_of(const Schedule& schedule, Rank rank, Space space);

/// The postcondition of a schedule whose header is sound.
class Contract {
 public:
  Contract(const Schedule& schedule, int pieces);
  /// What output `chunk` of `rank` must hold; for reductions as if folded in the order of ranks.
  [[nodiscard]] Value expected(Rank rank, int chunk, int piece) const;
  /// `value` holds every rank's contribution to some chunk exactly once, and the collective is a reduction.
  [[nodiscard]] bool is_whole(const Value& value) const;

 private:
  const Schedule* schedule_;
  std::vector<Value> whole_;  ///< [piece][chunk] the finished reductions
  std::unordered_map<std::uint64_t, std::uint64_t> whole_contributions_;
};

}  // namespace tutti::proof
