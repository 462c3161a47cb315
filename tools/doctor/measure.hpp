/// \file
/// The facts about pairs of ranks, found out by using them.
#pragma once

#include <vector>

#include <tutti/options.hpp>

#include "doctor/pairs.hpp"
#include "doctor/team.hpp"

namespace tutti::doctor {

/// Of whom pairs are measured, ascending: all; of more than 32, as many of each machine, spread over its
/// ranks, as make 32 at most, but one of each of the first 32 machines at least.
std::vector<int> choose_ranks(const std::vector<Machine>& machines);

/// Connects every chosen rank with every one of another machine by TCP, as tutti will; then every
/// pair that can connect plays ping-pong, with a communicator of its own, one pair at a time. Collective;
/// complete on rank 0. Throws Error when the team itself falls apart.
PairFacts measure_pairs(Team& team, const std::vector<Machine>& machines, const Options& options);

}  // namespace tutti::doctor
