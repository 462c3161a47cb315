#include "simulation/host_network.hpp"

namespace tutti::simulation {

Network host_network(int ranks, const HostCosts& costs) {
  Network network;
  network.ranks = ranks;
  network.node_size = ranks;
  network.costs = {{.name = "shared memory",
                    .alpha = costs.alpha,
                    .send_overhead = costs.overhead,
                    .receive_overhead = costs.overhead}};
  network.processor = {.call = costs.call,
                       .step = costs.step,
                       .copy = costs.copy,
                       .fold = costs.fold,
                       .serial = true,
                       .multicasts = true};
  network.route = [](Rank /*from*/, Rank /*to*/) { return Route{}; };
  return network;
}

}  // namespace tutti::simulation
