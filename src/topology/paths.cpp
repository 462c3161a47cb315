#include "topology/paths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

namespace tutti::topology {

namespace {

/// Whether a path that came to a node, by a link, goes on from there by another link. An adapter passes on
/// only what comes from a cable or goes to one.
bool forwards(const Machine& machine, NodeId node, LinkId came, LinkId goes) {
  switch (machine.node(node).kind) {
    case NodeKind::cpu:
    case NodeKind::bridge:
    case NodeKind::nvswitch:
      return true;
    case NodeKind::nic:
      return machine.link(came).kind == LinkKind::wire || machine.link(goes).kind == LinkKind::wire;
    default:
      return false;
  }
}

bool is_processor(NodeKind kind) { return kind == NodeKind::cpu || kind == NodeKind::memory; }

/// Whether a link leads from one socket to another; NUMA domains of an unknown socket count as one each.
bool between_sockets(const Machine& machine, const Link& link) {
  if (link.kind != LinkKind::socket) return false;
  const int a = machine.node(link.a).package, b = machine.node(link.b).package;
  return a != b || a < 0;
}

/// The class of `path` made one link longer: classes only get worse on the way.
PathClass extended(const Machine& machine, const Path& path, LinkId id) {
  const Link& link = machine.link(id);
  const Node &here = machine.node(path.nodes.back()),
             &next = machine.node(machine.other_end(id, path.nodes.back()));
  PathClass step = PathClass::same;
  if (link.kind == LinkKind::nvlink || link.kind == LinkKind::xgmi || link.kind == LinkKind::c2c)
    step = here.kind == NodeKind::nvswitch || next.kind == NodeKind::nvswitch ? PathClass::nvswitch
                                                                              : PathClass::direct;
  else if (between_sockets(machine, link))
    step = PathClass::sockets;
  else if (link.kind == LinkKind::pcie && here.kind == NodeKind::bridge && path.links.size() > 1 &&
           machine.node(path.nodes[path.nodes.size() - 2]).kind == NodeKind::bridge)
    step = PathClass::pcie_switches;
  else if (link.kind == LinkKind::pcie)
    step = PathClass::pcie_switch;
  const bool through_processor = is_processor(here.kind) && !path.links.empty();
  if (through_processor ||
      (link.kind != LinkKind::c2c && (is_processor(here.kind) || is_processor(next.kind))))
    step = std::max(step, PathClass::host);
  return std::max(path.kind, step);
}

/// Smaller is better. The nodes decide between equals.
bool better(const Path& a, const Path& b) {
  return std::forward_as_tuple(a.kind, a.links.size(), -a.bandwidth, a.latency, a.links) <
         std::forward_as_tuple(b.kind, b.links.size(), -b.bandwidth, b.latency, b.links);
}

}  // namespace

std::vector<Path> paths_from(const Machine& machine, NodeId from) {
  const auto adjacency = machine.adjacency();
  std::vector<Path> best(machine.nodes.size());
  best[static_cast<std::size_t>(from)] = {
      .kind = PathClass::same, .nodes = {from}, .bandwidth = std::numeric_limits<double>::infinity()};
  // Rounds as those of Bellman and Ford: a longer path may be better, by its class.
  std::vector<NodeId> changed = {from};
  for (std::size_t round = 0; round < machine.nodes.size() && !changed.empty(); ++round) {
    std::vector<NodeId> next;
    for (const NodeId id : changed) {
      const Path here = best[static_cast<std::size_t>(id)];
      for (const LinkId link : adjacency[static_cast<std::size_t>(id)]) {
        if (id != from && !forwards(machine, id, here.links.back(), link)) continue;
        const NodeId to = machine.other_end(link, id);
        if (std::ranges::find(here.nodes, to) != here.nodes.end()) continue;
        Path longer = here;
        longer.kind = extended(machine, here, link);
        longer.nodes.push_back(to);
        longer.links.push_back(link);
        longer.bandwidth = std::min(here.bandwidth, machine.link(link).bandwidth);
        longer.latency += machine.link(link).latency;
        auto& known = best[static_cast<std::size_t>(to)];
        if (!known.nodes.empty() && !better(longer, known)) continue;
        known = std::move(longer);
        if (std::ranges::find(next, to) == next.end()) next.push_back(to);
      }
    }
    changed = std::move(next);
  }
  return best;
}

Path path(const Machine& machine, NodeId from, NodeId to) {
  return std::move(paths_from(machine, from)[static_cast<std::size_t>(to)]);
}

std::string_view name(PathClass kind) noexcept {
  switch (kind) {
    case PathClass::same:
      return "same device";
    case PathClass::direct:
      return "direct link";
    case PathClass::nvswitch:
      return "nvswitch";
    case PathClass::pcie_switch:
      return "pcie switch";
    case PathClass::pcie_switches:
      return "pcie switches";
    case PathClass::host:
      return "host";
    case PathClass::sockets:
      return "sockets";
    case PathClass::network:
      return "network";
    case PathClass::none:
      return "none";
  }
  return "invalid";
}

std::string_view abbreviation(PathClass kind) noexcept {
  switch (kind) {
    case PathClass::same:
      return "SELF";
    case PathClass::direct:
      return "NVL";
    case PathClass::nvswitch:
      return "NVS";
    case PathClass::pcie_switch:
      return "PIX";
    case PathClass::pcie_switches:
      return "PXB";
    case PathClass::host:
      return "PHB";
    case PathClass::sockets:
      return "SYS";
    case PathClass::network:
      return "NET";
    case PathClass::none:
      return "-";
  }
  return "?";
}

std::string describe(const Machine& machine, const Path& path) {
  std::string text;
  for (std::size_t i = 0; i < path.nodes.size(); ++i) {
    if (i > 0) text += fmt::format(" -{}- ", name(machine.link(path.links[i - 1]).kind));
    text += name(machine.node(path.nodes[i]));
  }
  return text;
}

}  // namespace tutti::topology
