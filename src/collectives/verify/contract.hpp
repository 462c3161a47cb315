/// \file
/// What a collective promises: the buffers of every rank, what they hold before, and what they must hold
/// after.
#pragma once

#include <cstdint>
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
