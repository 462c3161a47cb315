#include "topology/paths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

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

}  // namespace

/// The class of `way` made one link longer: classes only get worse on the way.
PathClass Paths::extended(const Machine& machine, const Way& way, LinkId id) const {
  const Link& link = machine.link(id);
  const Node &here = machine.node(way.node), &next = machine.node(machine.other_end(id, way.node));
  PathClass step = PathClass::same;
  if (link.kind == LinkKind::nvlink || link.kind == LinkKind::xgmi || link.kind == LinkKind::c2c)
    step = here.kind == NodeKind::nvswitch || next.kind == NodeKind::nvswitch ? PathClass::nvswitch
                                                                              : PathClass::direct;
  else if (between_sockets(machine, link))
    step = PathClass::sockets;
  else if (link.kind == LinkKind::pcie && here.kind == NodeKind::bridge && way.reach.hops > 1 &&
           machine.node(ways_[way.before].node).kind == NodeKind::bridge)
    step = PathClass::pcie_switches;
  else if (link.kind == LinkKind::pcie)
    step = PathClass::pcie_switch;
  const bool through_processor = is_processor(here.kind) && way.reach.hops > 0;
  if (through_processor ||
      (link.kind != LinkKind::c2c && (is_processor(here.kind) || is_processor(next.kind))))
    step = std::max(step, PathClass::host);
  return std::max(way.reach.kind, step);
}

/// The first of the links that differ decides between equals.
bool Paths::better(const Way& a, const Way& b) const {
  const auto worth = [](const Reach& reach) {
    return std::tuple(reach.kind, reach.hops, -reach.bandwidth, reach.latency);
  };
  if (worth(a.reach) != worth(b.reach)) return worth(a.reach) < worth(b.reach);
  bool is_first = a.link < b.link;
  // From behind, to where they are one.
  for (std::size_t i = a.before, j = b.before; i != j; i = ways_[i].before, j = ways_[j].before)
    if (ways_[i].link != ways_[j].link) is_first = ways_[i].link < ways_[j].link;
  return is_first;
}

Paths::Paths(const Machine& machine, NodeId from) : ways_(1), best_(machine.nodes.size(), none) {
  const auto adjacency = machine.adjacency();
  best_[static_cast<std::size_t>(from)] = ways_.size();
  ways_.push_back({.reach = {.kind = PathClass::same, .bandwidth = std::numeric_limits<double>::infinity()},
                   .node = from});
  // Rounds as those of Bellman and Ford: a longer path may be better, by its class.
  std::vector<NodeId> changed = {from};
  std::vector<std::size_t> changed_in(machine.nodes.size());  // the last round, from 1
  for (std::size_t round = 1; round <= machine.nodes.size() && !changed.empty(); ++round) {
    std::vector<NodeId> next;
    for (const NodeId id : changed) {
      const std::size_t at = best_[static_cast<std::size_t>(id)];
      const Way here = ways_[at];
      for (const LinkId link : adjacency[static_cast<std::size_t>(id)]) {
        if (id != from && !forwards(machine, id, here.link, link)) continue;
        const NodeId to = machine.other_end(link, id);
        const Way longer{.reach = {.kind = extended(machine, here, link),
                                   .hops = here.reach.hops + 1,
                                   .bandwidth = std::min(here.reach.bandwidth, machine.link(link).bandwidth),
                                   .latency = here.reach.latency + machine.link(link).latency},
                         .node = to,
                         .link = link,
                         .before = at};
        // One that comes to a node again has more links than at first, and no better class.
        std::size_t& known = best_[static_cast<std::size_t>(to)];
        if (known != none && !better(longer, ways_[known])) continue;
        known = ways_.size();
        ways_.push_back(longer);
        if (std::exchange(changed_in[static_cast<std::size_t>(to)], round) != round) next.push_back(to);
      }
    }
    changed = std::move(next);
  }
}

const Reach& Paths::operator[](NodeId to) const { return ways_[best_[static_cast<std::size_t>(to)]].reach; }

Path Paths::to(NodeId node) const {
  std::size_t at = best_[static_cast<std::size_t>(node)];
  const Reach& reach = ways_[at].reach;
  if (at == none) return {};
  Path path{
      .kind = reach.kind, .nodes = {ways_[at].node}, .bandwidth = reach.bandwidth, .latency = reach.latency};
  path.links.reserve(static_cast<std::size_t>(reach.hops));
  path.nodes.reserve(static_cast<std::size_t>(reach.hops) + 1);
  for (; ways_[at].reach.hops > 0; at = ways_[at].before) {
    path.links.push_back(ways_[at].link);
    path.nodes.push_back(ways_[ways_[at].before].node);
  }
  std::ranges::reverse(path.nodes);
  std::ranges::reverse(path.links);
  return path;
}

Path path(const Machine& machine, NodeId from, NodeId to) { return Paths(machine, from).to(to); }

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
