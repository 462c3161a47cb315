#include "topology/text.hpp"

#include <fmt/format.h>

#include <set>

#include "topology/affinity.hpp"
#include "topology/paths.hpp"
#include "topology/rings.hpp"

namespace tutti::topology {

namespace {

/// "?" marks rates that are guesses.
std::string rate(const Link& link) {
  return fmt::format("{:.4g}{} GB/s", link.bandwidth, link.assumed ? "?" : "");
}

std::string title(const Node& node) {
  std::string text = name(node);
  if (!node.label.empty()) text += " " + node.label;
  if (!node.pci.empty()) text += " [" + node.pci + "]";
  if (node.kind == NodeKind::port && node.rdma) text += " RDMA";
  return text;
}

bool is_tree_link(const Link& link) {
  return link.kind == LinkKind::pcie || link.kind == LinkKind::wire || link.kind == LinkKind::c2c;
}

class Tree {
 public:
  explicit Tree(const Machine& machine) : machine_(machine), adjacency_(machine.adjacency()) {}

  std::string text() {
    for (const NodeId cpu : machine_.all(NodeKind::cpu)) root(cpu);
    const bool gpus = machine_.count(NodeKind::gpu) > 0;
    for (const Link& link : machine_.links)
      if (link.kind == LinkKind::nvlink || link.kind == LinkKind::xgmi)
        text_ += fmt::format("{} -{}- {}: {} links, {}\n", name(machine_.node(link.a)), name(link.kind),
                             name(machine_.node(link.b)), link.count, rate(link));
    if (machine_.nvlink_machines > 1)
      text_ += fmt::format("{} such machines share the NVSwitch\n", machine_.nvlink_machines);
    if (!gpus) text_ += "no GPU\n";
    for (const std::string& what : machine_.unseen) text_ += "not seen: " + what + "\n";
    return std::move(text_);
  }

 private:
  void root(NodeId cpu) {
    const Node& node = machine_.node(cpu);
    text_ += title(node);
    if (node.package >= 0) text_ += fmt::format(", package {}", node.package);
    text_ += "\n";
    shown_.insert(cpu);
    for (const LinkId id : adjacency_[static_cast<std::size_t>(cpu)]) {
      const Link& link = machine_.link(id);
      if (link.kind == LinkKind::socket && link.a == cpu)
        text_ += fmt::format("  socket link to {}, {}\n", name(machine_.node(link.b)), rate(link));
    }
    below(cpu, 1);
  }

  void below(NodeId parent, int depth) {
    for (const LinkId id : adjacency_[static_cast<std::size_t>(parent)]) {
      const Link& link = machine_.link(id);
      const NodeId child = machine_.other_end(id, parent);
      if (!is_tree_link(link) || !shown_.insert(child).second) continue;
      const std::string lanes =
          link.kind == LinkKind::pcie && link.count > 1 ? fmt::format(" x{}", link.count) : "";
      text_ += fmt::format("{:{}}{}  {}{}, {}\n", "", 2 * depth, title(machine_.node(child)), name(link.kind),
                           lanes, rate(link));
      if (machine_.node(child).kind != NodeKind::gpu) below(child, depth + 1);
    }
  }

  const Machine& machine_;
  std::vector<std::vector<LinkId>> adjacency_;
  std::set<NodeId> shown_;
  std::string text_;
};

}  // namespace

std::string tree(const Machine& machine) { return Tree(machine).text(); }

std::string affinity_table(const Machine& machine) {
  const auto devices = devices_of_ranks(machine);
  const auto ports = ports_of(machine, devices);
  std::string text;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    text += name(machine.node(devices[i])) + ":";
    const Paths paths(machine, devices[i]);
    for (const NodeId port : ports[i]) {
      const Reach& path = paths[port];
      const Node& node = machine.node(port);
      text += fmt::format(" {}{}{}{} ({}, {:.4g} GB/s)", name(node), node.label.empty() ? "" : " ",
                          node.label, node.rdma ? "" : " without RDMA", name(path.kind), path.bandwidth);
    }
    text += ports[i].empty() ? " no network port\n" : "\n";
  }
  return text;
}

std::string ring_table(const Machine& machine) {
  const std::vector<Ring> all = rings(machine);
  std::string text;
  for (const Ring& ring : all) {
    for (const NodeId gpu : ring) text += name(machine.node(gpu)) + " ";
    text.back() = '\n';
  }
  if (!all.empty())
    text += fmt::format("{:.4g} GB/s each, when all run at once\n", ring_bandwidth(machine, all));
  return text;
}

std::string path_matrix(const Machine& machine) {
  auto nodes = devices_of_ranks(machine);
  const auto ports = machine.all(NodeKind::port);
  nodes.insert(nodes.end(), ports.begin(), ports.end());
  constexpr int width = 8;
  std::string text = fmt::format("{:{}}", "", width);
  for (const NodeId id : nodes) text += fmt::format("{:>{}}", name(machine.node(id)), width);
  std::set<PathClass> used;
  for (const NodeId from : nodes) {
    text += fmt::format("\n{:{}}", name(machine.node(from)), width);
    const Paths paths(machine, from);
    for (const NodeId to : nodes) {
      const PathClass kind = paths[to].kind;
      used.insert(kind);
      text += fmt::format("{:>{}}", abbreviation(kind), width);
    }
  }
  text += "\n";
  for (const PathClass kind : used) text += fmt::format("{:>4} {}\n", abbreviation(kind), name(kind));
  return text;
}

}  // namespace tutti::topology
