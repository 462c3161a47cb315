/// \file
/// Finds, among ranks that all wait, two that did not make the same calls.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "bootstrap/frame.hpp"

namespace tutti::bootstrap {

class Referee {
 public:
  /// Takes note of what `world_rank` reports. The verdict, once a communicator: the lowest sequence number at
  /// which its calls and those of an earlier report differ.
  std::optional<Notice> hear(Rank world_rank, StuckReport report);

 private:
  struct Case {
    bool decided = false;
    std::uint64_t heard = 0;              ///< `reports_` when it was last reported
    std::map<Rank, StuckReport> reports;  ///< by rank of the communicator; the newest of each
  };
  std::map<std::uint64_t, Case> cases_;  ///< by communicator; of many, those that were reported last
  std::uint64_t reports_ = 0;            ///< so far
};

}  // namespace tutti::bootstrap
