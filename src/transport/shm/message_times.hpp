/// \file
/// Where ranks share processors, a long message takes as long as what others do meanwhile lets it: a sender's
/// own times decide between two ways hardly better than a coin would (docs/experiments-calls.md, Sends). So
/// senders of a host tell each other what they find, and each decides from all that was found at the same
/// time, which makes ranks that send alike decide alike.
#pragma once

#include <cstddef>
#include <vector>

#include "base/deadline.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/path_trial.hpp"

namespace tutti::transport::shm {

class MessageTimes {
 public:
  /// `me`: as a rank of this host.
  MessageTimes(const Arena& arena, Rank me) : arena_(arena), me_(me) {}
  /// What this rank's trial of a range of lengths has found. Nothing before it is through: halves of a trial
  /// would count for one way alone.
  void tell(std::size_t range, const PathTrial::Times& times);
  /// The same of the other ranks that have told since then.
  [[nodiscard]] std::vector<PathTrial::Times> of_others(std::size_t range, Clock::time_point since) const;

 private:
  const Arena& arena_;
  Rank me_;
};

}  // namespace tutti::transport::shm
