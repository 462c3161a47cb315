/// \file
/// Which algorithms and pieces come into question for a call on a network, and which is the fastest.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithms.hpp"
#include "simulation/simulate.hpp"

namespace tutti::simulation {

struct Candidate {
  const Algorithm* algorithm = nullptr;
  std::size_t piece = 0;  ///< wanted bytes of a chunk a message
  Result result;
};

struct Question {
  Collective collective = Collective::all_reduce;
  std::size_t bytes = 0;
  DataType type = DataType::float32;
  std::string algorithm;  ///< only this one; empty: all
  std::size_t piece = 0;  ///< only this; 0: several
};

/// From so many ranks on, flat algorithms are left out, unless asked for by name: their schedules grow with
/// the square of the ranks, and they lose.
inline constexpr int flat_up_to = 512;
/// From so many ranks on, ranks are simulated by representatives.
inline constexpr int everybody_up_to = 64;

/// Simulated, the fastest first; of equals, the one that comes first in `algorithms()`. Throws
/// Error(invalid_argument) when there is no such algorithm, or it reaches into other ranks' memory.
std::vector<Candidate> candidates(const Network& network, const Question& question);

/// Queue pairs of the adapter that has most: those of all ranks that use it.
int queue_pairs_per_adapter(const Network& network, const Result& result);

}  // namespace tutti::simulation
