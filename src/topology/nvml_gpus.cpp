#include <fmt/format.h>

#include <algorithm>

#include "topology/assemble.hpp"
#include "topology/nvml.hpp"
#include "topology/rates.hpp"

namespace tutti::topology {

namespace {

NodeId cpu_of(const Machine& machine, NodeId node) {
  while (machine.node(node).kind != NodeKind::cpu) {
    const Link* up = pcie_above(machine, node);
    if (up == nullptr) return no_node;
    node = up->a;
  }
  return node;
}

/// GPUs beyond those that NVML lists keep their order behind them.
void renumber(Machine& machine, const std::vector<NodeId>& listed) {
  std::vector<NodeId> order = listed;
  for (const NodeId id : machine.all(NodeKind::gpu)) {
    if (std::ranges::find(listed, id) != listed.end()) continue;
    machine.unseen.push_back(
        fmt::format("GPU {} by NVML: it may belong to others, or have another driver", machine.node(id).pci));
    order.push_back(id);
  }
  for (std::size_t i = 0; i < order.size(); ++i) machine.node(order[i]).index = static_cast<int>(i);
}

}  // namespace

void add_gpus(Machine& machine, const std::vector<NvmlGpu>& gpus) {
  std::vector<NodeId> ids;
  for (const NvmlGpu& gpu : gpus) {
    auto at = std::ranges::find_if(machine.nodes, [&](const Node& node) {
      return node.kind == NodeKind::gpu && !gpu.pci.empty() && node.pci == gpu.pci;
    });
    if (at == machine.nodes.end()) {
      machine.unseen.push_back(fmt::format("where GPU {} is plugged in; taken: below cpu0", gpu.pci));
      add_device(machine, machine.all(NodeKind::cpu).front(),
                 {.kind = NodeKind::gpu, .pci = gpu.pci, .rdma = true, .details = {{"vendor", "0x10de"}}},
                 std::nullopt);
      at = machine.nodes.end() - 1;
    }
    at->label = gpu.name;
    if (gpu.compute_capability > 0) at->details["sm"] = std::to_string(gpu.compute_capability);
    ids.push_back(static_cast<NodeId>(at - machine.nodes.begin()));
  }
  PeerLinks told;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const double each = nvlink_bandwidth(gpus[i].compute_capability);
    int untold = 0;
    for (const NvmlLink& link : gpus[i].links) {
      const auto peer = std::ranges::find(gpus, link.pci, &NvmlGpu::pci);
      const NodeId cpu = link.remote == NvmlLink::Remote::cpu ? cpu_of(machine, ids[i]) : no_node;
      if (link.remote == NvmlLink::Remote::nvswitch)
        told.tell({ids[i], the_nvswitch(machine), LinkKind::nvlink}, 1, each);
      else if (cpu != no_node)
        told.tell({ids[i], cpu, LinkKind::nvlink}, 1, each);
      else if (peer != gpus.end() && !link.pci.empty() && peer->pci != gpus[i].pci)
        told.tell({ids[i], ids[static_cast<std::size_t>(peer - gpus.begin())], LinkKind::nvlink}, 1, each);
      else
        ++untold;
    }
    if (untold > 0)
      machine.unseen.push_back(fmt::format("where {} NVLinks of GPU {} lead; left out", untold, gpus[i].pci));
  }
  told.join(machine);
  renumber(machine, ids);
}

}  // namespace tutti::topology
