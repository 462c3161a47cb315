/// \file
/// This machine: what this process can see of it. Processors, bridges and devices through hwloc, rates of
/// ports through sysfs, NVLinks through NVML. In containers and virtual machines parts are hidden: that is
/// said in `Machine::unseen`, and nothing is made up for them.
#pragma once

#include <string>

#include "topology/machine.hpp"

namespace tutti::topology {

/// Looks at the machine anew: tens of milliseconds where there are many devices. Throws Error(system) only
/// when not even the processors can be seen.
Machine discover();

struct Discovery {
  Machine machine{};
  std::string nvlink_domain{};  ///< that spans hosts; empty: none
};
/// The same with what makes no part of the machine's identity.
Discovery discover_all();

/// The rates of ports, which hwloc does not tell, and of GPUs that idle, of which it tells other ones, and
/// RDMA devices and interfaces that it does not see because nothing of them is on the PCI bus. `root` goes in
/// front of "/sys/class/..."; empty: this machine.
void add_what_sysfs_knows(Machine& machine, const std::string& root = {});

}  // namespace tutti::topology
