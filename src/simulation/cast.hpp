/// \file
/// The programs of the simulated ranks, with FIFOs by number.
#pragma once

#include <memory>
#include <vector>

#include "execution/lower.hpp"
#include "simulation/network.hpp"
#include "simulation/quotient.hpp"
#include "simulation/simulate.hpp"

namespace tutti::simulation {

/// Sending ends: the FIFOs that a message goes to. More than one: a multicast.
struct Outgoing {
  std::vector<int> fifos;
};

struct Actor {
  Rank rank = 0;  ///< the representative
  execution::Program program;
  std::vector<Outgoing> sinks;  ///< by the program's sink; empty: memory
  std::vector<int> sources;     ///< FIFO by the program's source; -1: memory
};

/// Adds FIFOs to `quotient` as programs name them.
std::vector<Actor> cast(const Schedule& schedule, const Network& network, const Workload& workload,
                        Quotient& quotient, bool even);

}  // namespace tutti::simulation
