/// \file
/// The fastest algorithms of a scene, found with the simulator.
#pragma once

#include <cstddef>
#include <vector>

#include "tuning/tuning.hpp"

namespace tutti::tuning {

struct Ranked {
  const Algorithm* algorithm = nullptr;
  double seconds = 0;  ///< a call, when calls follow each other
};

/// All algorithms that send messages, the fastest first; of equals, the simplest. Those made for nodes only
/// where hosts have several ranks.
std::vector<Ranked> rank_algorithms(const Question& question, const Costs& costs);

/// What a communicator can wait for when it is made: every operation is decided at one size, then at more
/// as far as a bounded number of simulated steps goes, most where two neighbours differ. Beyond
/// `most_simulated` ranks, so many are simulated in their place, on hosts like theirs. The same on every
/// machine of one kind, however busy it is. `known` is kept.
Choices decide(const Tuning& tuning, const Scene& scene, Choices known);
inline constexpr int most_simulated = 32;

/// All classes up to `largest`, however long that takes.
Choices decide_all(const Tuning& tuning, const Scene& scene, std::size_t largest);

}  // namespace tutti::tuning
