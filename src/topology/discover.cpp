#include "topology/discover.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "topology/assemble.hpp"
#include "topology/hwloc.hpp"
#include "topology/nvml.hpp"

namespace tutti::topology {

namespace {

Machine processors_and_devices([[maybe_unused]] const std::set<std::string>& gpus) {
#if TUTTI_HAVE_HWLOC
  return from_hwloc_xml(parse_xml(hwloc_xml_of_this_machine()), gpus);
#else
  Machine machine;
  add_cpu(machine, Node{});
  machine.unseen.emplace_back("NUMA domains, PCI devices: this build of tutti is without hwloc");
  return machine;
#endif
}

bool has_nvidia(const Machine& machine) {
  return std::ranges::any_of(machine.nodes, [](const Node& node) {
    return node.kind == NodeKind::gpu && detail(node, "vendor") == "0x10de";
  });
}

}  // namespace

Discovery discover_all() {
  std::string why_not;
  const auto gpus = read_nvml(why_not);
  std::set<std::string> addresses;
  if (gpus)
    for (const NvmlGpu& gpu : *gpus)
      if (!gpu.pci.empty()) addresses.insert(gpu.pci);
  Discovery found{.machine = processors_and_devices(addresses)};
  Machine& machine = found.machine;
  machine.name = "this";
  if (gpus) {
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
