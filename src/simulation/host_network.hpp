/// \file
/// Ranks with buffers in the processors' memory, on one host or several, as the simulator's network.
#pragma once

#include <array>

#include "simulation/network.hpp"

namespace tutti::simulation {

/// What messages and work cost; `tutti-tune` measures them.
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

/// Hosts that a network joins.
struct Hosts {
  int ranks = 1;
  int size = 1;         ///< ranks a host, consecutive; the last host may have fewer
  HostCosts inside{};   ///< of ranks that share memory
  HostCosts between{};  ///< of ranks that do not
  bool rdma = false;    ///< queue pairs join the hosts
  double port = 0;      ///< bytes/s into and out of a host; 0: more than the ranks can do
};

/// One thread a rank. Work costs what it costs inside a host, or `between` hosts of one rank each; what
/// receiving a byte from another host costs more than a copy comes on top. Hosts' ports are the links.
Network hosts_network(const Hosts& hosts);

}  // namespace tutti::simulation
