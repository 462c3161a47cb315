/// \file
/// Orders of a machine's GPUs in which rings run well: what a planner of schedules starts from.
#pragma once

#include <span>
#include <vector>

#include "topology/machine.hpp"

namespace tutti::topology {

/// GPUs in the order in which data passes them; from the last one back to the first.
using Ring = std::vector<NodeId>;

/// Rings over all GPUs, to run at the same time:
/// - below NVSwitches one for each port that a GPU uses, beginning at that GPU: any order is as good there,
/// and
///   between machines every ring enters and leaves by a port of its own;
/// - where GPUs are linked directly, as many as their links allow without a link in two of them, each in both
///   directions (found by a search with a bound: fewer than there are, where the search takes too long);
/// - else one, in the order of the PCIe tree, which crosses every link of the tree at most once a direction.
/// None for fewer than two GPUs.
std::vector<Ring> rings(const Machine& machine);

/// GB/s that each of the rings carries when all run at once and share the links they have in common evenly.
/// 0 when there is no path somewhere.
double ring_bandwidth(const Machine& machine, std::span<const Ring> rings);

}  // namespace tutti::topology
