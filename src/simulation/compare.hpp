/// \file
/// Why one candidate is slower than another, in words: from what the simulator counted.
#pragma once

#include <string>
#include <string_view>
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

/// Those that the fastest is compared with: the next one, and the first by another algorithm.
std::vector<const Candidate*> runners_up(const std::vector<Candidate>& all);

/// The time that a link needs for what crosses it, as a share of the whole time.
double load(const Network& network, const Candidate& candidate, const LinkCounts& link);

/// Several lines: the fastest candidate, and why not the runners-up.
std::string describe(const Network& network, const Ranking& ranking, std::string_view more_effort = "");
/// Of the candidates that were given up, a line for those that are slower and one for those of which nobody
/// knows, with Question::more_effort, each after `indent`.
std::string describe(const std::vector<LeftOut>& left_out, std::string_view more_effort = "",
                     std::string_view indent = "");

/// "12.50" for 12.5 us, "~12.50" where that is estimated.
std::string time_text(const Result& result);
/// What stands below times that `time_text` may have marked.
inline constexpr std::string_view estimate_note =
    "~: estimated from some of the pieces, as to simulate all would take long";
/// "1.5K" for 1536, at most four digits.
std::string size_text(double bytes);
/// The name of a link, and how many are like it.
std::string link_text(const Network& network, const LinkCounts& link);

}  // namespace tutti::simulation
