/// \file
/// What tutti-sim prints and writes.
#pragma once

#include <cstddef>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/settings.hpp"
#include "simulation/candidates.hpp"

namespace tutti::sim {

/// One size on one number of nodes: all candidates, the fastest first.
struct Answer {
  int nodes = 1;
  std::size_t bytes = 0;
  std::vector<simulation::Candidate> candidates{};
  std::vector<simulation::LeftOut> left_out{};  ///< slower ones, not simulated to the end
};

/// GB/s as nccl-tests' busbw: what the busiest port would have to carry if nothing were sent twice.
double bus_bandwidth(Collective collective, int ranks, std::size_t bytes, double seconds);

/// The time that a link needs for what crosses it, as a share of the whole time.
double load(const simulation::Network& network, const simulation::Candidate& candidate,
            const simulation::LinkCounts& link);

void print_header(std::FILE* to);
/// A line for the fastest candidate and the one after it, and `links` lines for links.
void print(std::FILE* to, const simulation::Network& network, const Answer& answer, int links);
/// "all_pairs (64K 256K), ring (64K)": the algorithms and pieces.
std::string left_out_text(const Answer& answer);
nlohmann::json to_json(const simulation::Spent& spent);
nlohmann::json to_json(const simulation::Network& network, const Answer& answer);

}  // namespace tutti::sim
