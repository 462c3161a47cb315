/// \file
/// Machines for people: as a tree, and as tables.
#pragma once

#include <string>

#include "topology/machine.hpp"
#include "topology/world.hpp"

namespace tutti::topology {

/// The processors, what hangs on them, and the links between GPUs; at the end what could not be seen.
std::string tree(const Machine& machine);

/// Each GPU (each cpu node where there is none) with its ports: class of the path, GB/s.
std::string affinity_table(const Machine& machine);

/// The orders of the GPUs in which rings run well, and what each ring carries when all run at once; empty for
/// fewer than two GPUs.
std::string ring_table(const Machine& machine);

/// The class of the path between any two GPUs and ports, with the legend.
std::string path_matrix(const Machine& machine);

/// Hosts and who is on them, rails, NVLink domains.
std::string world_text(const World& world);

}  // namespace tutti::topology
