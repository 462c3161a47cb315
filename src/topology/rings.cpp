#include "topology/rings.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>

#include "topology/affinity.hpp"
#include "topology/paths.hpp"

namespace tutti::topology {

namespace {

constexpr int most_steps = 200'000;  ///< of the search for rings: milliseconds
constexpr std::size_t most_gpus = 32;
constexpr std::size_t most_pairs = 32;  ///< of rings, one in each direction: the search descends with each

/// Rings without a link in common among GPUs that are linked directly: depth first, the most rings win.
class Search {
 public:
  /// free[i][j]: how many rings may still go between GPUs i and j.
  explicit Search(std::vector<std::vector<int>> free) : free_(std::move(free)), size_(free_.size()) {
    bound_ = most_pairs;
    for (const auto& row : free_)
      bound_ = std::min(bound_, static_cast<std::size_t>(std::accumulate(row.begin(), row.end(), 0)) / 2);
  }

  std::vector<std::vector<std::size_t>> run() {
    next_ring();
    return best_;
  }

 private:
  [[nodiscard]] bool over() const { return steps_ > most_steps || best_.size() >= bound_; }

  void next_ring() {
    if (found_.size() > best_.size()) best_ = found_;
    std::vector<std::size_t> path = {0};
    std::vector<bool> visited(size_);
    visited[0] = true;
    extend(path, visited);
  }

  void extend(std::vector<std::size_t>& path, std::vector<bool>& visited) {
    if (over()) return;
    ++steps_;
    const std::size_t here = path.back();
    if (path.size() == size_) {
      if (free_[here][0] > 0) close(path);
      return;
    }
    for (std::size_t next = 1; next < size_; ++next) {
      if (visited[next] || free_[here][next] == 0) continue;
      take(here, next, 1);
      visited[next] = true;
      path.push_back(next);
      extend(path, visited);
      path.pop_back();
      visited[next] = false;
      take(here, next, -1);
    }
  }

  void close(const std::vector<std::size_t>& path) {
    take(path.back(), 0, 1);
    found_.push_back(path);
    next_ring();
    found_.pop_back();
    take(path.back(), 0, -1);
  }

  void take(std::size_t a, std::size_t b, int count) {
    free_[a][b] -= count;
    free_[b][a] -= count;
  }

  std::vector<std::vector<int>> free_;
  std::size_t size_, bound_;
  std::vector<std::vector<std::size_t>> found_, best_;
  int steps_ = 0;
};

std::vector<Ring> rings_of_direct_links(const Machine& machine, const std::vector<NodeId>& gpus) {
  if (gpus.size() > most_gpus) return {};
  std::vector<std::vector<int>> free(gpus.size(), std::vector<int>(gpus.size()));
  int unit = 0;  // links that always come together count as one
  for (const Link& link : machine.links) {
    const auto a = std::ranges::find(gpus, link.a), b = std::ranges::find(gpus, link.b);
    const bool peer = link.kind == LinkKind::nvlink || link.kind == LinkKind::xgmi;
    if (!peer || a == gpus.end() || b == gpus.end()) continue;
    unit = std::gcd(unit, link.count);
    free[static_cast<std::size_t>(a - gpus.begin())][static_cast<std::size_t>(b - gpus.begin())] +=
        link.count;
    free[static_cast<std::size_t>(b - gpus.begin())][static_cast<std::size_t>(a - gpus.begin())] +=
        link.count;
  }
  if (unit == 0) return {};
  // Two GPUs: one ring goes there and back, over all links.
  if (gpus.size() == 2) return {{gpus[0], gpus[1]}};
  for (auto& row : free)
    for (int& count : row) count /= unit;
  std::vector<Ring> rings;
  for (const auto& order : Search(std::move(free)).run()) {
    Ring ring;
    for (const std::size_t i : order) ring.push_back(gpus[i]);
    rings.push_back(ring);
    std::reverse(ring.begin() + 1, ring.end());
    rings.push_back(std::move(ring));
  }
  return rings;
}

/// Rotations: ring k begins at the GPU that uses the k-th port.
std::vector<Ring> rings_of_switches(const Machine& machine, const std::vector<NodeId>& gpus) {
  const auto parts_whole = [&] {
    const Paths paths(machine, gpus.front());
    return std::ranges::all_of(gpus, [&](NodeId gpu) { return paths[gpu].kind <= PathClass::nvswitch; });
  };
  if (machine.count(NodeKind::nvswitch) == 0 || !parts_whole()) return {};
  std::vector<Ring> rings;
  std::vector<NodeId> used;
  const auto ports = ports_of(machine, gpus);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const bool own = !ports[i].empty() && std::ranges::find(used, ports[i].front()) == used.end();
    if (!own && i != 0) continue;
    if (own) used.push_back(ports[i].front());
    Ring ring = gpus;
    std::rotate(ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(i), ring.end());
    rings.push_back(std::move(ring));
  }
  return rings;
}

/// The GPUs in the order of the tree; those that NVLink joins side by side.
Ring ring_of_tree(const Machine& machine, const std::vector<NodeId>& gpus) {
  const auto adjacency = machine.adjacency();
  // From the root to the GPU. What a device hangs on was added before it, or has a smaller number.
  const auto way = [&](NodeId node) {
    std::vector<NodeId> up = {node};
    while (machine.node(up.back()).kind != NodeKind::cpu && up.size() <= machine.nodes.size()) {
      const auto& links = adjacency[static_cast<std::size_t>(up.back())];
      const auto at = std::ranges::find_if(links, [&](LinkId id) {
        const Link& link = machine.link(id);
        return (link.kind == LinkKind::pcie && link.b == up.back()) || link.kind == LinkKind::c2c;
      });
      if (at == links.end()) break;
      up.push_back(machine.other_end(*at, up.back()));
    }
    std::ranges::reverse(up);
    return up;
  };
  std::map<NodeId, std::vector<NodeId>> ways;
  for (const NodeId gpu : gpus) ways[gpu] = way(gpu);
  std::vector<NodeId> order = gpus;
  std::ranges::stable_sort(order, [&](NodeId a, NodeId b) { return ways[a] < ways[b]; });
  Ring ring;
  const auto append = [&](NodeId gpu) {
    if (std::ranges::find(ring, gpu) == ring.end()) ring.push_back(gpu);
  };
  for (const NodeId gpu : order) {
    append(gpu);
    for (const LinkId id : adjacency[static_cast<std::size_t>(gpu)]) {
      const Link& link = machine.link(id);
      const NodeId peer = machine.other_end(id, gpu);
      if (link.kind != LinkKind::pcie && machine.node(peer).kind == NodeKind::gpu) append(peer);
    }
  }
  return ring;
}

/// passes[link][direction]
std::vector<std::array<int, 2>> directed_passes(const Machine& machine, std::span<const Ring> rings,
                                                bool& whole) {
  std::vector<std::array<int, 2>> count(machine.links.size());
  std::map<NodeId, Paths> paths;
  whole = true;
  for (const Ring& ring : rings) {
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const NodeId from = ring[i], to = ring[(i + 1) % ring.size()];
      const Path path = paths.try_emplace(from, machine, from).first->second.to(to);
      whole = whole && path.kind != PathClass::none;
      for (std::size_t hop = 0; hop < path.links.size(); ++hop) {
        const LinkId id = path.links[hop];
        ++count[static_cast<std::size_t>(id)][machine.link(id).a == path.nodes[hop] ? 0 : 1];
      }
    }
  }
  return count;
}

}  // namespace

std::vector<Ring> rings(const Machine& machine) {
  const auto gpus = machine.all(NodeKind::gpu);
  if (gpus.size() < 2) return {};
  if (auto found = rings_of_switches(machine, gpus); !found.empty()) return found;
  if (auto found = rings_of_direct_links(machine, gpus); !found.empty()) return found;
  return {ring_of_tree(machine, gpus)};
}

double ring_bandwidth(const Machine& machine, std::span<const Ring> rings) {
  bool whole = true;
  const auto count = directed_passes(machine, rings, whole);
  double bandwidth = std::numeric_limits<double>::infinity();
  for (std::size_t id = 0; id < count.size(); ++id)
    if (const int most = std::max(count[id][0], count[id][1]); most > 0)
      bandwidth = std::min(bandwidth, machine.links[id].bandwidth / most);
  return whole ? bandwidth : 0;
}

}  // namespace tutti::topology
