#include "topology/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <tutti/error.hpp>

namespace tutti::topology {

namespace {

constexpr std::array better_first = {Means::same_gpu,  Means::nvlink, Means::pcie_peer, Means::shared_memory,
                                     Means::gpudirect, Means::rdma,   Means::tcp};

/// One end of a pair.
struct End {
  const World& world;
  Rank rank;
  [[nodiscard]] const Seat& seat() const { return world.seat(rank); }
  [[nodiscard]] const Machine& machine() const { return world.machine(rank); }
  [[nodiscard]] const Node& device() const { return machine().node(seat().device); }
  [[nodiscard]] bool on_gpu() const { return device().kind == NodeKind::gpu; }
};

Route between(Path leaving, Path arriving, PathClass kind) {
  Route route{.kind = kind, .leaving = std::move(leaving), .arriving = std::move(arriving)};
  route.bandwidth = std::min(route.leaving.bandwidth, route.arriving.bandwidth);
  route.latency = route.leaving.latency + route.arriving.latency;
  return route;
}

class Pair {
 public:
  Pair(const World& world, Rank from, Rank to, const Rules& rules)
      : a_{world, from}, b_{world, to}, rules_(rules), one_host_(a_.seat().host == b_.seat().host) {}

  /// Why not, or nothing: then `route_` is set.
  std::optional<std::string> refusal(Means means) {
    switch (means) {
      case Means::same_gpu:
        return same_gpu();
      case Means::nvlink:
        return nvlink();
      case Means::pcie_peer:
        return pcie_peer();
      case Means::shared_memory:
        return shared_memory();
      case Means::gpudirect:
        return gpudirect();
      case Means::rdma:
        return ports(true);
      case Means::tcp:
        return tcp();
      case Means::none:
        break;
    }
    return std::nullopt;
  }
  Route route() { return std::move(route_); }

 private:
  /// For means that only GPUs have.
  [[nodiscard]] std::optional<std::string> not_on_gpus() const {
    if (rules_.memory == Memory::cpu) return "the buffers are in the processors' memory";
    for (const End* end : {&a_, &b_})
      if (!end->on_gpu()) return fmt::format("rank {} drives no GPU", end->rank);
    return std::nullopt;
  }

  std::optional<std::string> same_gpu() {
    if (auto why = not_on_gpus()) return why;
    if (!one_host_) return "the ranks are on different hosts";
    if (a_.seat().device != b_.seat().device)
      return fmt::format("the ranks drive different GPUs, {} and {}", name(a_.device()), name(b_.device()));
    route_ = within_host();
    return std::nullopt;
  }

  std::optional<std::string> nvlink() {
    if (auto why = not_on_gpus()) return why;
    if (!one_host_) return nvlink_between_hosts();
    route_ = within_host();
    if (route_.kind <= PathClass::nvswitch) return std::nullopt;
    return fmt::format("no NVLink joins {} and {}", name(a_.device()), name(b_.device()));
  }

  std::optional<std::string> nvlink_between_hosts() {
    const auto& domain = a_.world.host(a_.rank).nvlink_domain;
    if (domain.empty() || domain != b_.world.host(b_.rank).nvlink_domain)
      return "no NVLink domain holds both hosts";
    std::array<Path, 2> paths;
    for (std::size_t i = 0; i < 2; ++i) {
      const End& end = i == 0 ? a_ : b_;
      const auto switches = end.machine().all(NodeKind::nvswitch);
      if (switches.empty()) return fmt::format("the host of rank {} has no NVSwitch", end.rank);
      paths[i] = i == 0 ? path(end.machine(), end.seat().device, switches.front())
                        : path(end.machine(), switches.front(), end.seat().device);
      if (paths[i].kind > PathClass::nvswitch)
        return fmt::format("no NVLink joins {} of rank {} to its NVSwitch", name(end.device()), end.rank);
    }
    route_ = between(std::move(paths[0]), std::move(paths[1]), PathClass::nvswitch);
    return std::nullopt;
  }

  std::optional<std::string> pcie_peer() {
    if (auto why = not_on_gpus()) return why;
    if (!one_host_) return "the ranks are on different hosts";
    route_ = within_host();
    if (route_.kind <= rules_.farthest_peer) return std::nullopt;
    return fmt::format("{} and {} are apart by \"{}\"; peer access goes up to \"{}\"", name(a_.device()),
                       name(b_.device()), name(route_.kind), name(rules_.farthest_peer));
  }

  std::optional<std::string> shared_memory() {
    if (!one_host_) return "the ranks are on different hosts";
    if (!rules_.shared_memory) return "the ranks cannot share memory";
    route_ = within_host();
    if (auto why = no_way()) return why;
    // Between ranks of one device the data still goes to memory and back.
    if (a_.seat().device == b_.seat().device) route_ = by_memory();
    return std::nullopt;
  }

  /// From one device to the other, which is on the same host.
  [[nodiscard]] Route within_host() const {
    Route route{.leaving = path(a_.machine(), a_.seat().device, b_.seat().device)};
    route.kind = route.leaving.kind;
    route.bandwidth = route.leaving.bandwidth;
    route.latency = route.leaving.latency;
    return route;
  }

  /// Only a picture with links missing has devices of one host apart.
  [[nodiscard]] std::optional<std::string> no_way() const {
    if (route_.kind != PathClass::none) return std::nullopt;
    return fmt::format("no way leads from {} to {}", name(a_.device()), name(b_.device()));
  }

  [[nodiscard]] Route by_memory() const {
    const Machine& machine = a_.machine();
    const Paths paths(machine, a_.seat().device);
    const auto distance = [&](NodeId memory) { return std::pair(paths[memory].kind, paths[memory].hops); };
    const auto memories = machine.all(NodeKind::memory);
    const auto nearest = std::ranges::min_element(memories, {}, distance);
    const Path best = nearest == memories.end() ? Path{} : paths.to(*nearest);
    return {.kind = best.kind, .leaving = best, .bandwidth = best.bandwidth, .latency = 2 * best.latency};
  }

  /// Both ends' ports, or why not.
  std::optional<std::string> ports(bool rdma) {
    for (const End* end : {&a_, &b_}) {
      const NodeId port = end->seat().port;
      if (port == no_node) return fmt::format("rank {} has no network port", end->rank);
      if (rdma && !end->machine().node(port).rdma)
        return fmt::format("{} of rank {} does not speak RDMA", name(end->machine().node(port)), end->rank);
    }
    route_ = between(path(a_.machine(), a_.seat().device, a_.seat().port),
                     path(b_.machine(), b_.seat().port, b_.seat().device), PathClass::network);
    return std::nullopt;
  }

  std::optional<std::string> gpudirect() {
    if (auto why = not_on_gpus()) return why;
    if (auto why = ports(true)) return why;
    for (const End* end : {&a_, &b_}) {
      const Path& way = end == &a_ ? route_.leaving : route_.arriving;
      const std::string gpu = fmt::format("{} of rank {}", name(end->device()), end->rank);
      if (!end->device().rdma) return "adapters cannot reach the memory of " + gpu;
      const bool by_c2c = std::ranges::any_of(
          way.links, [&](LinkId id) { return end->machine().link(id).kind == LinkKind::c2c; });
      if (way.kind > rules_.farthest_adapter && !(by_c2c && way.kind == PathClass::host))
        return fmt::format("{} and {} are apart by \"{}\"; GPUDirect goes up to \"{}\"", gpu,
                           name(end->machine().node(end->seat().port)), name(way.kind),
                           name(rules_.farthest_adapter));
    }
    return std::nullopt;
  }

  std::optional<std::string> tcp() {
    if (!one_host_) return ports(false);
    route_ = within_host();
    return no_way();
  }

  End a_, b_;
  const Rules& rules_;
  bool one_host_;
  Route route_{};
};

}  // namespace

Choice choose(const World& world, Rank from, Rank to, const Rules& rules) {
  if (from < 0 || to < 0 || from >= world.size() || to >= world.size() || from == to)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no means for ranks {} and {} of {}", from, to, world.size()));
  Pair pair(world, from, to, rules);
  Choice choice;
  for (const Means means : better_first) {
    auto why = pair.refusal(means);
    if (!why) {
      choice.means = means;
      choice.route = pair.route();
      return choice;
    }
    choice.refused.push_back({.means = means, .why = *std::move(why)});
  }
  return choice;
}

std::string_view name(Means means) noexcept {
  switch (means) {
    case Means::same_gpu:
      return "same gpu";
    case Means::nvlink:
      return "nvlink";
    case Means::pcie_peer:
      return "pcie peer";
    case Means::shared_memory:
      return "shared memory";
    case Means::gpudirect:
      return "gpudirect rdma";
    case Means::rdma:
      return "rdma";
    case Means::tcp:
      return "tcp";
    case Means::none:
      return "none";
  }
  return "invalid";
}

std::string describe(const World& world, Rank from, Rank to, const Choice& choice) {
  const auto seat = [&](Rank rank) {
    const Machine& machine = world.machine(rank);
    return fmt::format("rank {} ({} of host {})", rank, name(machine.node(world.seat(rank).device)),
                       world.seat(rank).host);
  };
  std::string text = fmt::format("{} -> {}: {}", seat(from), seat(to), name(choice.means));
  if (choice.means != Means::none && choice.means != Means::same_gpu)
    text += fmt::format(", {:.4g} GB/s, {:.2g} us", choice.route.bandwidth, choice.route.latency);
  text += "\n";
  for (const Refusal& refusal : choice.refused)
    text += fmt::format("  not {}: {}\n", name(refusal.means), refusal.why);
  return text;
}

}  // namespace tutti::topology
