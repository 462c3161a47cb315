/// \file
/// Why one candidate is slower than another, in words: from what the simulator counted.
#pragma once

#include <string>
#include <vector>

#include "simulation/candidates.hpp"
#include "simulation/network.hpp"

namespace tutti::simulation {

/// One thing that the time of a critical path went to.
struct Difference {
  double seconds = 0;  ///< that the slower one spends more; negative: less
  std::string what;    ///< "bytes folded: at most 64M a rank, not 8M"
};

/// What `slower` spends more on than `faster`, and what less; the largest first, what is equal left out. The
/// seconds add up to the difference of their times. The counts in the text are those of all that is done,
/// also off the critical path.
std::vector<Difference> differences(const Network& network, const Candidate& slower, const Candidate& faster);

/// "1.5K" for 1536, at most four digits.
std::string size_text(double bytes);
/// The name of a link, and how many are like it.
std::string link_text(const Network& network, const LinkCounts& link);

}  // namespace tutti::simulation
