/// \file
/// Bus bandwidth, as nccl-tests have it.
#pragma once

#include <tutti/schedule.hpp>

namespace tutti {

/// The factor between algorithm bandwidth and bus bandwidth (nccl-tests' doc/PERFORMANCE.md): what the
/// busiest port would have to carry if nothing were sent twice. 0 for barrier.
inline double bus_factor(Collective collective, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::all_reduce:
      return 2 * share;
    case Collective::reduce:
    case Collective::broadcast:
      return 1;
    case Collective::barrier:
      return 0;
    default:
      return share;
  }
}

}  // namespace tutti
