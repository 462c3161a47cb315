#include "topology/discover.hpp"

#include <algorithm>

#include "topology/hwloc.hpp"
#include "topology/nvml.hpp"

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

bool has_nvidia(const Machine& machine) {
  return std::ranges::any_of(machine.nodes, [](const Node& node) {
    return node.kind == NodeKind::gpu && node.details.contains("vendor") &&
           node.details.at("vendor") == "0x10de";
  });
}

}  // namespace

Discovery discover_all() {
  Discovery found{.machine = processors_and_devices()};
  Machine& machine = found.machine;
  machine.name = "this";
  std::string why_not;
  if (const auto gpus = read_nvml(why_not)) {
    add_gpus(machine, *gpus);
    if (!gpus->empty()) found.nvlink_domain = gpus->front().fabric;
  } else if (has_nvidia(machine)) {
    machine.unseen.push_back("NVLinks: " + why_not);
  }
  add_what_sysfs_knows(machine);
  return found;
}

Machine discover() { return discover_all().machine; }

}  // namespace tutti::topology
