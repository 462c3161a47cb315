/// \file
/// The facts about pairs of ranks, found out by using them.
#pragma once

#include <vector>

#include <tutti/options.hpp>

#include "doctor/pairs.hpp"
#include "doctor/team.hpp"

namespace tutti::doctor {

/// Connects every rank with every rank of another machine by TCP, as tutti will; then every
/// pair that can connect plays ping-pong, with a communicator of its own, one pair at a time. Of many ranks,
/// one a machine. Collective; complete on rank 0. Throws Error when the team itself falls apart.
PairFacts measure_pairs(Team& team, const std::vector<Machine>& machines, const Options& options);

}  // namespace tutti::doctor
