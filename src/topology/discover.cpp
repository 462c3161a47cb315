#include "topology/discover.hpp"

#include <fmt/format.h>

#include <thread>

#include "topology/assemble.hpp"
#include "topology/hwloc.hpp"

namespace tutti::topology {

namespace {

Machine processors_and_devices() {
#if TUTTI_HAVE_HWLOC
  return from_hwloc_xml(hwloc_xml_of_this_machine());
#else
  Machine machine;
  add_cpu(machine, Node{});
  machine.unseen.emplace_back("NUMA domains, PCI devices: this build of tutti is without hwloc");
  return machine;
#endif
}

}  // namespace

Machine discover() {
  Machine machine = processors_and_devices();
  machine.name = "this";
  add_what_sysfs_knows(machine);
  return machine;
}

}  // namespace tutti::topology
