/// \file
/// The programs of the simulated ranks, with FIFOs by number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "execution/lower.hpp"
#include "simulation/network.hpp"
#include "simulation/quotient.hpp"
#include "simulation/simulate.hpp"

namespace tutti::simulation {

struct Actor {
  Rank rank = 0;  ///< the representative
  execution::Program program;
  std::vector<int> sources;                 ///< FIFO by the program's source; -1: memory
  std::vector<int> outgoing;                ///< FIFOs that the program's sinks send on, sink by sink
  std::vector<std::uint32_t> outgoing_end;  ///< by the program's sink, the end of its part of `outgoing`

  /// None: the sink is memory. More than one: a multicast.
  [[nodiscard]] std::span<const int> fifos(std::uint32_t sink) const {
    const std::uint32_t first = sink == 0 ? 0 : outgoing_end[sink - 1];
    return {outgoing.data() + first, outgoing_end[sink] - first};
  }
};

/// Adds FIFOs to `quotient` as programs name them.
std::vector<Actor> cast(const Schedule& schedule, const Network& network, const Workload& workload,
                        Quotient& quotient, bool even);

}  // namespace tutti::simulation
