/// \file
/// What tutti-sim prints and writes.
#pragma once

#include <cstddef>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "sim/settings.hpp"
#include "simulation/candidates.hpp"

namespace tutti::sim {

/// What lets a question take longer, as messages name it (Question::more_effort).
inline constexpr std::string_view more_effort = "tutti-sim --effort";

/// One size on one number of nodes.
struct Answer {
  int nodes = 1;
  std::size_t bytes = 0;
  simulation::Ranking ranking{};
};

void print_header(std::FILE* to);
/// A line for the fastest candidate and the one after it, and `links` lines for links. True: a time there is
/// an estimate, and marked.
bool print(std::FILE* to, const simulation::Network& network, const Answer& answer, int links);
/// Its seconds, and a candidate's `besides_seconds` (turns on shared processors, factors), are all of its
/// time.
nlohmann::json to_json(const simulation::Spent& spent);
nlohmann::json to_json(const simulation::Network& network, const Answer& answer);

}  // namespace tutti::sim
