/// \file
/// Which algorithms and pieces come into question for a call on a network, and which is the fastest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
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
  double besides = 0;  ///< s of it that Question's `crowd` and `factor` add to what was simulated
};

struct Question {
  Collective collective = Collective::all_reduce;
  std::size_t bytes = 0;
  DataType type = DataType::float32;
  std::string algorithm{};                         ///< only this one; empty: all
  std::size_t piece = 0;                           ///< only this; 0: several
  std::size_t max_message = execution::unlimited;  ///< bytes
  double crowd = 1;                                ///< ranks that share a processor
  double effort = 1;                               ///< times what is taken before candidates are given up
  std::string_view more_effort{};  ///< what its asker may do for more, for messages: an option
  std::function<double(const Algorithm&)> factor{};  ///< measured over simulated time; empty: 1
};

/// From so many ranks on, flat algorithms are left out where there are others made for nodes, unless asked
/// for by name: most of their schedules grow with the square of the ranks, and they lose. Where there are
/// none (a broadcast, one rank a node), those whose schedules do not grow so come into question.
inline constexpr int flat_up_to = 512;
/// Beyond so many ranks, they are simulated by representatives, but for networks with multicasts, and with
/// some of the pieces where there are many.
inline constexpr int everybody_up_to = 64;

/// Nobody asks how much slower than this many times the fastest candidate another one is.
inline constexpr double lost_by_far = 10;

/// What all simulations of a question may take (Limits::effort), so that there is an answer within seconds,
/// and each candidate half of what those before it left. On every machine the same are given up.
inline constexpr std::uint64_t most_effort = 150'000'000;
/// Of many ranks, by representatives or not: so many FIFOs are looked at to find those that are alike.
inline constexpr std::uint64_t most_fifos = 16'000'000;
/// From so many steps of all ranks on, long buffers are told from some of their pieces; beyond
/// `everybody_up_to` ranks always.
inline constexpr std::uint64_t some_pieces_from = 1'000'000;

/// What was given up, as it is slower than the fastest candidate, the next one and the best by another
/// algorithm than the fastest one's, or `lost_by_far` times as slow as the fastest one by then. Or as it
/// takes too long to find out.
struct LeftOut {
  const Algorithm* algorithm = nullptr;
  std::size_t piece = 0;
  double at_least = 0;    ///< s that it would take
  bool too_long = false;  ///< it could be faster: only Question::effort tells
};

struct Ranking {
  std::vector<Candidate>
      candidates{};  ///< the fastest first; of equals, that which comes first in `algorithms()`
  std::vector<LeftOut> left_out{};
};

/// Beyond `everybody_up_to` ranks, candidates are given up as soon as they have lost. Throws
/// Error(invalid_argument) when there is no such algorithm, or it reaches into other ranks' memory, and
/// Error(unsupported) when all candidates take too long.
Ranking rank_candidates(const Network& network, const Question& question);

/// What the rank has that has most of it.
template <typename Of>
auto most_of_a_rank(const Candidate& candidate, const Of& of) {
  decltype(of(candidate.result.ranks[0])) found{};
  for (const RankCounts& rank : candidate.result.ranks) found = std::max(found, of(rank));
  return found;
}

/// Queue pairs of the adapter that has most: those of all ranks that use it.
int queue_pairs_per_adapter(const Network& network, const Result& result);

}  // namespace tutti::simulation
