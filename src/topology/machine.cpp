#include "topology/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <tutti/error.hpp>

#include "topology/assemble.hpp"

namespace tutti::topology {

namespace {

[[noreturn]] void refuse(const Machine& machine, const std::string& why) {
  const std::string which = machine.name.empty() ? "topology" : "topology \"" + machine.name + '"';
  throw Error(ErrorCode::invalid_argument, which + ": " + why);
}

bool is_rate(double value) { return std::isfinite(value) && value >= 0 && value < 1e9; }
// What takes for ever on a link, no clock of a simulation counts to the end.
constexpr double least_bandwidth = 1e-9;  // GB/s: a byte a second

/// Whether a link leads from such a node to such another one. PCIe links and wires have a direction.
bool may_join(LinkKind kind, NodeKind a, NodeKind b) {
  using enum NodeKind;
  const auto are = [&](NodeKind one, NodeKind other) {
    return (a == one && b == other) || (a == other && b == one);
  };
  const auto takes_nvlinks = [](NodeKind node) { return node == gpu || node == nvswitch; };
  switch (kind) {
    case LinkKind::memory:
      return are(cpu, memory);
    case LinkKind::socket:
      return are(cpu, cpu);
    case LinkKind::pcie:
      return (a == cpu || a == bridge) && (b == bridge || b == gpu || b == nic);
    case LinkKind::c2c:
      return are(gpu, cpu);
    case LinkKind::nvlink:
    case LinkKind::xgmi:
      return are(gpu, cpu) || (takes_nvlinks(a) && takes_nvlinks(b));
    case LinkKind::wire:
      return a == nic && b == port;
  }
  return false;
}

/// PCIe links make trees: whoever walks up or down them comes to an end.
void check_trees(const Machine& machine) {
  std::vector<NodeId> parent(machine.nodes.size(), no_node);
  for (const Link& link : machine.links) {
    if (link.kind != LinkKind::pcie) continue;
    auto& above = parent[static_cast<std::size_t>(link.b)];
    if (above != no_node)
      refuse(machine, fmt::format("{} hangs on two PCIe links", name(machine.node(link.b))));
    above = link.a;
  }
  for (NodeId start = 0; start < static_cast<NodeId>(parent.size()); ++start) {
    std::size_t steps = 0;
    for (NodeId at = start; at != no_node; at = parent[static_cast<std::size_t>(at)])
      if (++steps > most_pcie_levels)
        refuse(machine, fmt::format("the PCIe links above {} are a circle, or more than {}",
                                    name(machine.node(start)), most_pcie_levels));
  }
}

}  // namespace

NodeId Machine::add(Node node) {
  if (nodes.size() >= most_nodes) refuse(*this, fmt::format("more than {} devices", most_nodes));
  node.index = static_cast<int>(count(node.kind));
  nodes.push_back(std::move(node));
  return static_cast<NodeId>(nodes.size()) - 1;
}

LinkId Machine::add(const Link& link) {
  if (links.size() >= most_links) refuse(*this, fmt::format("more than {} links", most_links));
  links.push_back(link);
  return static_cast<LinkId>(links.size()) - 1;
}

std::vector<NodeId> Machine::all(NodeKind kind) const {
  std::vector<NodeId> found;
  for (std::size_t id = 0; id < nodes.size(); ++id)
    if (nodes[id].kind == kind) found.push_back(static_cast<NodeId>(id));
  std::ranges::stable_sort(found, {}, [&](NodeId id) { return node(id).index; });
  return found;
}

std::size_t Machine::count(NodeKind kind) const {
  return static_cast<std::size_t>(std::ranges::count(nodes, kind, &Node::kind));
}

std::vector<std::vector<LinkId>> Machine::adjacency() const {
  std::vector<std::vector<LinkId>> at(nodes.size());
  for (std::size_t id = 0; id < links.size(); ++id) {
    at[static_cast<std::size_t>(links[id].a)].push_back(static_cast<LinkId>(id));
    if (links[id].b != links[id].a)
      at[static_cast<std::size_t>(links[id].b)].push_back(static_cast<LinkId>(id));
  }
  return at;
}

NodeId Machine::other_end(LinkId id, NodeId end) const { return link(id).a == end ? link(id).b : link(id).a; }

NodeId Machine::find(std::string_view text) const {
  if (text.empty()) return no_node;
  const std::string address = pci_address(text);
  const auto first = [&](const auto& matches) {
    const auto at = std::ranges::find_if(nodes, matches);
    return at != nodes.end() ? static_cast<NodeId>(at - nodes.begin()) : no_node;
  };
  NodeId found = first([&](const Node& node) { return topology::name(node) == text; });
  if (found == no_node && !address.empty())
    found = first([&](const Node& node) { return node.pci == address; });
  if (found == no_node) found = first([&](const Node& node) { return node.label == text; });
  return found;
}

std::string_view name(NodeKind kind) noexcept {
  switch (kind) {
    case NodeKind::cpu:
      return "cpu";
    case NodeKind::memory:
      return "memory";
    case NodeKind::bridge:
      return "bridge";
    case NodeKind::gpu:
      return "gpu";
    case NodeKind::nic:
      return "nic";
    case NodeKind::port:
      return "port";
    case NodeKind::nvswitch:
      return "nvswitch";
  }
  return "invalid";
}

std::string_view name(LinkKind kind) noexcept {
  switch (kind) {
    case LinkKind::memory:
      return "memory";
    case LinkKind::socket:
      return "socket";
    case LinkKind::pcie:
      return "pcie";
    case LinkKind::c2c:
      return "c2c";
    case LinkKind::nvlink:
      return "nvlink";
    case LinkKind::xgmi:
      return "xgmi";
    case LinkKind::wire:
      return "wire";
  }
  return "invalid";
}

std::string name(const Node& node) { return fmt::format("{}{}", name(node.kind), node.index); }

std::string detail(const Node& node, const std::string& key, std::string_view otherwise) {
  const auto at = node.details.find(key);
  return at == node.details.end() ? std::string(otherwise) : at->second;
}

void check(const Machine& machine) {
  if (machine.nodes.size() > most_nodes || machine.links.size() > most_links)
    refuse(machine, fmt::format("{} nodes and {} links; at most {} and {} are taken", machine.nodes.size(),
                                machine.links.size(), most_nodes, most_links));
  if (machine.nvlink_machines < 1 || machine.nvlink_machines > 1'000'000)
    refuse(machine, fmt::format("nvlink_machines is {}", machine.nvlink_machines));
  if (machine.nvlink_machines > 1 && machine.count(NodeKind::nvswitch) == 0)
    refuse(machine,
           fmt::format("nvlink_machines is {}, but there is no nvswitch to share", machine.nvlink_machines));
  std::vector<std::pair<NodeKind, int>> seen;
  for (const Node& node : machine.nodes) seen.emplace_back(node.kind, node.index);
  std::ranges::sort(seen);
  if (const auto twice = std::ranges::adjacent_find(seen); twice != seen.end())
    refuse(machine, fmt::format("two nodes are {}{}", name(twice->first), twice->second));
  const auto nodes = static_cast<NodeId>(machine.nodes.size());
  for (const Link& link : machine.links) {
    if (link.a < 0 || link.a >= nodes || link.b < 0 || link.b >= nodes)
      refuse(machine,
             fmt::format("a {} link joins nodes {} and {} of {}", name(link.kind), link.a, link.b, nodes));
    if (link.a == link.b) refuse(machine, fmt::format("{} is linked to itself", name(machine.node(link.a))));
    const Node &a = machine.node(link.a), &b = machine.node(link.b);
    if (!may_join(link.kind, a.kind, b.kind))
      refuse(machine, fmt::format("no {} link leads from {} to {}", name(link.kind), name(a), name(b)));
    if (!is_rate(link.bandwidth) || link.bandwidth < least_bandwidth || !is_rate(link.latency) ||
        link.count < 1 || link.count > most_side_by_side)
      refuse(machine, fmt::format("the {} link of {} and {} has {} GB/s, {} us, count {}", name(link.kind),
                                  name(a), name(b), link.bandwidth, link.latency, link.count));
  }
  check_trees(machine);
}

}  // namespace tutti::topology
