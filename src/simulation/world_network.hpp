/// \file
/// A World (src/topology/world.hpp) as the simulator's network: every direction of every link of every host
/// is one shared link.
#pragma once

#include "simulation/network.hpp"
#include "topology/world.hpp"

namespace tutti::simulation {

/// GPUs copy and reduce in their own memory and reach each other as topology::Paths says: over NVLink,
/// through a rack's NVSwitch, over PCIe, or by the ports of their seats. The fabric between ports does not
/// block. Constants for work and messages of GPUs are those of docs/simulation.md; latencies and bandwidths
/// are the topology's. `world` is copied where it is needed. Throws Error(unsupported) for ranks that no way
/// joins, and for more links than an int counts.
Network network_of(const topology::World& world);

}  // namespace tutti::simulation
