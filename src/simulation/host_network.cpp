#include "simulation/host_network.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cstddef>

namespace tutti::simulation {

namespace {

Processor processor_of(const HostCosts& costs) {
  return {.call = costs.call, .step = costs.step, .copy = costs.copy, .fold = costs.fold, .serial = true};
}

PathCost path_of(const HostCosts& costs, bool views) {
  return {.alpha = costs.alpha,
          .send_overhead = costs.overhead,
          .receive_overhead = costs.overhead,
          .views = views};
}

PathCost shared_memory(const HostCosts& costs) { return path_of(costs, false); }

}  // namespace

Network host_network(int ranks, const HostCosts& costs) {
  Network network;
  network.ranks = ranks;
  network.node_size = ranks;
  network.costs = {shared_memory(costs)};
  network.processor = processor_of(costs);
  network.processor.multicasts = true;
  network.route = [](Rank /*from*/, Rank /*to*/) { return Route{}; };
  return network;
}

Network hosts_network(const Hosts& hosts) {
  enum Cost : int { inside, between };
  const bool alone = hosts.size == 1;
  Network network;
  network.ranks = hosts.ranks;
  network.node_size = hosts.size;
  network.processor = processor_of(alone ? hosts.between : hosts.inside);
  network.costs = {shared_memory(hosts.inside), path_of(hosts.between, true)};
  network.costs[between].receive_byte = std::max(0.0, hosts.between.copy - network.processor.copy);
  network.costs[between].network = hosts.rdma;
  const int count = (hosts.ranks + hosts.size - 1) / hosts.size;
  const bool limited = hosts.port > 0;
  if (limited) network.bandwidth.assign(2 * static_cast<std::size_t>(count), hosts.port);
  network.route = [size = hosts.size, limited](Rank from, Rank to) {
    Route route;
    const int a = from / size, b = to / size;
    if (a == b) return route;
    route.cost = between;
    if (!limited) return route;
    route.cross(2 * a);
    route.cross(2 * b + 1);
    return route;
  };
  network.link_name = [](int link) {
    return fmt::format("host {} {}", link / 2, link % 2 == 0 ? "out" : "in");
  };
  network.adapter = [size = hosts.size](Rank rank) { return rank / size; };
  return network;
}

}  // namespace tutti::simulation
