#include "simulation/world_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "simulation/at.hpp"
#include "topology/paths.hpp"

namespace tutti::simulation {

namespace {

using namespace topology;

enum Cost : int { nvlink, pcie, host, network, cost_count };

// docs/simulation.md says where these come from.
constexpr double microsecond = 1e-6;
std::vector<PathCost> gpu_costs() {
  const PathCost any = {
      .send_overhead = 0.5 * microsecond, .receive_overhead = 0.1 * microsecond, .copies = false};
  std::vector<PathCost> costs(cost_count, any);
  costs[network].gap = 0.01 * microsecond;
  costs[network].network = true;
  return costs;
}

// What two nodes of one machine have between them, links with their direction: 2 link + (from b to a).
struct Way {
  std::vector<int> links;
  double latency = 0;
  PathClass kind = PathClass::none;
};

class Layout {
 public:
  explicit Layout(World world) : world_(std::move(world)) {
    for (const Host& host : world_.hosts) {
      bases_.push_back(link_count_);
      const std::size_t links = 2 * world_.machines[at(host.machine)].links.size();
      if (links > at(std::numeric_limits<int>::max() - link_count_))
        throw Error(ErrorCode::unsupported, fmt::format("the links of {} hosts are more than can be "
                                                        "numbered; simulate fewer hosts",
                                                        world_.hosts.size()));
      link_count_ += static_cast<int>(links);
    }
  }

  [[nodiscard]] const World& world() const { return world_; }
  [[nodiscard]] int link_count() const { return link_count_; }

  [[nodiscard]] double bandwidth(int link) const {
    const auto [host, local] = local_link(link);
    constexpr double giga = 1e9;
    return machine(host).links[at(local / 2)].bandwidth * giga;
  }

  [[nodiscard]] std::string link_name(int link) const {
    const auto [host, local] = local_link(link);
    const Machine& m = machine(host);
    const Link& l = m.links[at(local / 2)];
    const bool forward = local % 2 == 0;
    return fmt::format("host {} {} {} > {}", host, name(l.kind), name(m.node(forward ? l.a : l.b)),
                       name(m.node(forward ? l.b : l.a)));
  }

  Route route(Rank from, Rank to) {
    const Seat &a = world_.seat(from), &b = world_.seat(to);
    Route route;
    if (a.host == b.host) {
      const Way& way = between(a.host, a.device, b.device);
      add(route, a.host, way);
      route.cost = way.kind <= PathClass::nvswitch        ? nvlink
                   : way.kind <= PathClass::pcie_switches ? pcie
                                                          : host;
      return route;
    }
    const NodeId near = rack_switch(a), far = rack_switch(b);
    const bool rack = near != no_node && far != no_node && domain(a) == domain(b);
    route.cost = rack ? nvlink : network;
    const NodeId out = rack ? near : a.port, in = rack ? far : b.port;
    if (out == no_node || in == no_node)
      throw Error(ErrorCode::unsupported,
                  fmt::format("ranks {} and {} are on two hosts, and one of these has no port to a network",
                              from, to),
                  {from, to});
    add(route, a.host, between(a.host, a.device, out));
    add(route, b.host, between(b.host, in, b.device));
    return route;
  }

  // Seconds from one rank to another; equal for all pairs of a cost in the machines that people build, so
  // the largest stands for all.
  [[nodiscard]] double latency(Rank from, Rank to) {
    const Seat &a = world_.seat(from), &b = world_.seat(to);
    if (a.host == b.host) return between(a.host, a.device, b.device).latency;
    return route(from, to).cost == nvlink
               ? between(a.host, a.device, rack_switch(a)).latency * 2
               : between(a.host, a.device, a.port).latency + between(b.host, b.port, b.device).latency;
  }

 private:
  [[nodiscard]] const Machine& machine(int host) const {
    return world_.machines[at(world_.hosts[at(host)].machine)];
  }
  [[nodiscard]] const std::string& domain(const Seat& seat) const {
    return world_.hosts[at(seat.host)].nvlink_domain;
  }
  // By which the seat's device is joined to other hosts of its NVLink domain; no_node: it is not.
  NodeId rack_switch(const Seat& seat) {
    if (domain(seat).empty()) return no_node;
    const auto [found, added] =
        rack_switches_.try_emplace({world_.hosts[at(seat.host)].machine, seat.device}, no_node);
    if (!added) return found->second;
    const Machine& m = machine(seat.host);
    const auto switches = m.all(NodeKind::nvswitch);
    if (!switches.empty() && path(m, seat.device, switches.front()).kind <= PathClass::nvswitch)
      found->second = switches.front();
    return found->second;
  }
  [[nodiscard]] std::pair<int, int> local_link(int link) const {
    const auto after = std::upper_bound(bases_.begin(), bases_.end(), link);
    const int host = static_cast<int>(after - bases_.begin()) - 1;
    return {host, link - bases_[at(host)]};
  }
  void add(Route& route, int host, const Way& way) const {
    for (const int link : way.links) route.cross(bases_[at(host)] + link);
  }
  const Way& between(int host, NodeId from, NodeId to) {
    const auto [found, added] = ways_.try_emplace({world_.hosts[at(host)].machine, from, to});
    if (!added) return found->second;
    const Machine& m = machine(host);
    const Path p = path(m, from, to);
    if (p.kind == PathClass::none)
      throw Error(ErrorCode::unsupported, fmt::format("no way leads from {} to {} in {}", name(m.node(from)),
                                                      name(m.node(to)), m.name));
    for (std::size_t i = 0; i < p.links.size(); ++i)
      found->second.links.push_back(2 * p.links[i] + (m.link(p.links[i]).a == p.nodes[i] ? 0 : 1));
    found->second.latency = p.latency * microsecond;
    found->second.kind = p.kind;
    return found->second;
  }

  World world_;
  std::vector<int> bases_;  ///< first link of every host
  int link_count_ = 0;
  std::map<std::tuple<int, NodeId, NodeId>, Way> ways_;
  std::map<std::pair<int, NodeId>, NodeId> rack_switches_;  ///< by machine and device
};

// Ranks between which all ways are that there are: of every kind of machine those of two hosts, and one in
// the first rank's NVLink domain and one outside of it. One a seat: all pairs of them are looked at.
std::vector<Rank> examples(const World& world) {
  std::vector<Rank> found;
  std::map<int, std::set<int>> hosts;  // by machine
  std::set<std::pair<int, bool>> kinds;
  std::set<std::tuple<int, NodeId, NodeId>> taken;
  for (Rank rank = 0; rank < world.size(); ++rank) {
    const Host& host = world.host(rank);
    std::set<int>& two = hosts[host.machine];
    if (two.size() < 2) two.insert(world.seat(rank).host);
    const bool of_a_kind =
        kinds.emplace(host.machine, host.nvlink_domain == world.host(0).nvlink_domain).second;
    const Seat& seat = world.seat(rank);
    if ((of_a_kind || two.contains(seat.host)) && taken.emplace(seat.host, seat.device, seat.port).second)
      found.push_back(rank);
  }
  return found;
}

// Ranks that share a host, when all hosts but the last have equally many consecutive ones; otherwise 0.
int node_size(const World& world) {
  int size = 0;
  while (size < world.size() && world.seat(size).host == world.seat(0).host) ++size;
  for (Rank r = 0; r < world.size(); ++r)
    if (world.seat(r).host != world.seat(r / size * size).host ||
        (r % size == 0 && r > 0 && world.seat(r).host == world.seat(r - 1).host))
      return 0;
  return size;
}

}  // namespace

Network network_of(const World& world) {
  const auto layout = std::make_shared<Layout>(world);
  Network network;
  network.ranks = world.size();
  network.node_size = node_size(world);
  network.costs = gpu_costs();
  for (int l = 0; l < layout->link_count(); ++l) network.bandwidth.push_back(layout->bandwidth(l));
  network.route = [layout](Rank from, Rank to) { return layout->route(from, to); };
  network.link_name = [layout](int link) { return layout->link_name(link); };
  std::map<std::pair<int, NodeId>, int> ports;
  std::vector<int> adapters;
  for (const Seat& seat : world.seats)
    adapters.push_back(
        ports.try_emplace({seat.host, seat.port}, static_cast<int>(ports.size())).first->second);
  network.adapter = [adapters = std::move(adapters)](Rank rank) { return adapters[at(rank)]; };
  const std::vector<Rank> some = examples(world);
  for (const Rank from : some)
    for (const Rank to : some) {
      if (from == to) continue;
      double& alpha = network.costs[at(layout->route(from, to).cost)].alpha;
      alpha = std::max(alpha, layout->latency(from, to));
    }
  network.processor = {.step = 0.1 * microsecond, .copy = 1 / 1.5e12, .fold = 1 / 3e12, .serial = false};
  network.queue_pairs_cached = 8192;
  network.queue_pair_miss = 0.2 * microsecond;
  return network;
}

}  // namespace tutti::simulation
