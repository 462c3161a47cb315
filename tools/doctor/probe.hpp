/// \file
/// Whether machines let each other's TCP connections through, without tutti's transports.
#pragma once

#include <vector>

#include "doctor/pairs.hpp"
#include "doctor/team.hpp"

namespace tutti::doctor {

/// Each of `ranks` tries to connect to those of other machines. Collective over the team; the answer is the
/// same on all ranks. Takes a few seconds where a firewall is silent.
std::vector<Blocked> probe_connections(Team& team, const std::vector<Machine>& machines,
                                       const std::vector<int>& ranks);

}  // namespace tutti::doctor
