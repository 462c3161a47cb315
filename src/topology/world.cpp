#include "topology/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <tutti/error.hpp>

#include "topology/affinity.hpp"

namespace tutti::topology {

namespace {

/// For each node the one that stands for its part: a switch, or the first GPU among those joined by NVLink or
/// xGMI; no_node for all others.
std::vector<NodeId> nvlink_parts(const Machine& machine) {
  std::vector<NodeId> part(machine.nodes.size(), no_node);
  const auto adjacency = machine.adjacency();
  const auto joins = [&](LinkId id) {
    const Link& link = machine.link(id);
    const bool processor =
        machine.node(link.a).kind == NodeKind::cpu || machine.node(link.b).kind == NodeKind::cpu;
    return (link.kind == LinkKind::nvlink || link.kind == LinkKind::xgmi) && !processor;
  };
  // From the switches first, so that they stand for their part.
  auto starts = machine.all(NodeKind::nvswitch);
  std::ranges::copy(machine.all(NodeKind::gpu), std::back_inserter(starts));
  for (const NodeId start : starts) {
    if (part[static_cast<std::size_t>(start)] != no_node) continue;
    std::vector<NodeId> reached = {start};
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (const LinkId link : adjacency[static_cast<std::size_t>(reached[i])]) {
        const NodeId next = machine.other_end(link, reached[i]);
        if (!joins(link) || std::ranges::find(reached, next) != reached.end()) continue;
        reached.push_back(next);
      }
    }
    if (reached.size() > 1)
      for (const NodeId id : reached) part[static_cast<std::size_t>(id)] = start;
  }
  return part;
}

}  // namespace

std::vector<NodeId> devices_of_ranks(const Machine& machine) {
  auto gpus = machine.all(NodeKind::gpu);
  return gpus.empty() ? machine.all(NodeKind::cpu) : gpus;
}

void add_hosts(World& world, const Machine& machine, int hosts, int ranks_per_host) {
  const auto devices = devices_of_ranks(machine);
  if (hosts < 1 || ranks_per_host < 0 || devices.empty())
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} machines \"{}\" with {} ranks each: {}", hosts, machine.name, ranks_per_host,
                    devices.empty() ? "it has neither GPU nor processor" : "at least 1 and 0 are needed"));
  if (ranks_per_host == 0) ranks_per_host = static_cast<int>(devices.size());
  if (hosts > (most_ranks - world.size()) / ranks_per_host)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} machines \"{}\" with {} ranks each are more than the {} ranks that are described; "
                    "fewer machines, or fewer ranks on each, are needed",
                    hosts, machine.name, ranks_per_host, most_ranks));
  const auto kind = static_cast<int>(world.machines.size());
  world.machines.push_back(machine);
  for (int i = 0; i < hosts; ++i) {
    const auto host = static_cast<int>(world.hosts.size());
    world.hosts.push_back({.machine = kind, .nvlink_domain = {}});
    if (machine.nvlink_machines > 1)
      world.hosts.back().nvlink_domain = fmt::format("{} {}", kind, i / machine.nvlink_machines);
    for (int rank = 0; rank < ranks_per_host; ++rank) {
      const auto at =
          static_cast<std::size_t>(rank) * devices.size() / static_cast<std::size_t>(ranks_per_host);
      world.seats.push_back({.host = host, .device = devices[at]});
    }
  }
  assign_ports(world);
}

World uniform_world(const Machine& machine, int hosts, int ranks_per_host) {
  World world;
  add_hosts(world, machine, hosts, ranks_per_host);
  return world;
}

void assign_ports(World& world) {
  // Hosts of one machine whose ranks sit alike get the same ports: found out once.
  std::vector<std::vector<Seat*>> at(world.hosts.size());
  for (Seat& seat : world.seats) at[static_cast<std::size_t>(seat.host)].push_back(&seat);
  std::map<std::pair<int, std::vector<NodeId>>, std::vector<std::vector<NodeId>>> known;
  for (std::size_t host = 0; host < at.size(); ++host) {
    std::vector<NodeId> devices;
    for (const Seat* seat : at[host]) devices.push_back(seat->device);
    std::ranges::sort(devices);
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    const int machine = world.hosts[host].machine;
    auto ports = known.find({machine, devices});
    if (ports == known.end())
      ports = known
                  .emplace(std::pair(machine, devices),
                           ports_of(world.machines[static_cast<std::size_t>(machine)], devices))
                  .first;
    for (Seat* seat : at[host]) {
      const auto& mine =
          ports->second[static_cast<std::size_t>(std::ranges::find(devices, seat->device) - devices.begin())];
      seat->port = mine.empty() ? no_node : mine.front();
    }
  }
}

std::vector<std::vector<Rank>> ranks_by_host(const World& world) {
  std::vector<std::vector<Rank>> found(world.hosts.size());
  for (Rank rank = 0; rank < world.size(); ++rank)
    found[static_cast<std::size_t>(world.seat(rank).host)].push_back(rank);
  return found;
}

std::vector<std::vector<Rank>> rail_groups(const World& world) {
  std::vector<std::vector<Rank>> groups;
  for (auto& ranks : ranks_by_host(world)) {
    std::ranges::stable_sort(ranks, {}, [&](Rank rank) {
      const NodeId port = world.seat(rank).port;
      return port == no_node ? -1 : world.machine(rank).node(port).index;
    });
    if (groups.size() < ranks.size()) groups.resize(ranks.size());
    for (std::size_t k = 0; k < ranks.size(); ++k) groups[k].push_back(ranks[k]);
  }
  return groups;
}

std::vector<std::vector<Rank>> nvlink_domains(const World& world) {
  // The parts of one host are told apart by a number; the switches of several hosts are joined by their name.
  std::map<std::pair<std::string, std::pair<int, NodeId>>, std::vector<Rank>> found;
  std::map<int, std::vector<NodeId>> parts;  // by machine
  for (Rank rank = 0; rank < world.size(); ++rank) {
    const Host& host = world.host(rank);
    const Machine& machine = world.machine(rank);
    auto known = parts.find(host.machine);
    if (known == parts.end()) known = parts.emplace(host.machine, nvlink_parts(machine)).first;
    const NodeId part = known->second[static_cast<std::size_t>(world.seat(rank).device)];
    if (part == no_node) continue;
    const bool spans = machine.node(part).kind == NodeKind::nvswitch && !host.nvlink_domain.empty();
    if (spans)
      found[{host.nvlink_domain, {-1, no_node}}].push_back(rank);
    else
      found[{"", {world.seat(rank).host, part}}].push_back(rank);
  }
  std::vector<std::vector<Rank>> domains;
  domains.reserve(found.size());
  for (auto& [key, ranks] : found) domains.push_back(std::move(ranks));
  std::ranges::sort(domains);
  return domains;
}

}  // namespace tutti::topology
