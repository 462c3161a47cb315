#include "topology/affinity.hpp"

#include <algorithm>
#include <tuple>

#include "topology/paths.hpp"

namespace tutti::topology {

namespace {

bool is_usable(const Reach& path) { return path.kind != PathClass::none; }

}  // namespace

std::vector<std::vector<NodeId>> ports_of(const Machine& machine, std::span<const NodeId> devices) {
  const auto ports = machine.all(NodeKind::port);
  std::vector<std::vector<Reach>> paths;  // [device][port]
  for (const NodeId device : devices) {
    const Paths all(machine, device);
    auto& mine = paths.emplace_back();
    for (const NodeId port : ports) mine.push_back(all[port]);
  }
  std::vector<std::vector<NodeId>> found(devices.size());
  std::vector<int> users(ports.size());
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto worth = [&](std::size_t p) {
      const Reach& path = paths[d][p];
      return std::tuple(!machine.node(ports[p]).rdma, path.kind, (users[p] + 1) / path.bandwidth, path.hops);
    };
    std::size_t best = ports.size();
    for (std::size_t p = 0; p < ports.size(); ++p)
      if (is_usable(paths[d][p]) && (best == ports.size() || worth(p) < worth(best))) best = p;
    if (best == ports.size()) continue;
    found[d].push_back(ports[best]);
    ++users[best];
  }
  for (std::size_t p = 0; p < ports.size(); ++p) {
    if (users[p] > 0) continue;
    const auto as_near = [&](std::size_t d) {
      if (found[d].empty()) return false;
      const auto first = static_cast<std::size_t>(std::ranges::find(ports, found[d].front()) - ports.begin());
      return machine.node(ports[p]).rdma == machine.node(ports[first]).rdma &&
             paths[d][p].kind <= paths[d][first].kind;
    };
    std::size_t best = devices.size();
    for (std::size_t d = 0; d < devices.size(); ++d)
      if (as_near(d) && (best == devices.size() || found[d].size() < found[best].size())) best = d;
    if (best < devices.size()) found[best].push_back(ports[p]);
  }
  return found;
}

}  // namespace tutti::topology
