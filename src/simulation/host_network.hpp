/// \file
/// Ranks of one host over shared memory, as the simulator's network.
#pragma once

#include <array>

#include "simulation/network.hpp"

namespace tutti::simulation {

/// What messages and work cost on one host; `tutti-tune` measures them.
struct HostCosts {
  double call = 50e-9;      ///< s a call, before its first step
  double alpha = 120e-9;    ///< s until another core sees a message
  double overhead = 60e-9;  ///< s of either side a message
  double step = 20e-9;      ///< s a step
  double copy = 1 / 10e9;   ///< s a byte copied
  double fold = 1 / 20e9;   ///< s a byte for every source after the first
};

inline constexpr std::array host_costs = {&HostCosts::call, &HostCosts::alpha, &HostCosts::overhead,
                                          &HostCosts::step, &HostCosts::copy,  &HostCosts::fold};

/// One thread a rank. Copies are the ranks' own work, and there are no links: what the memory itself cannot
/// carry shows in `copy`.
Network host_network(int ranks, const HostCosts& costs);

}  // namespace tutti::simulation
