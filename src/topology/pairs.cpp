#include "topology/pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace tutti::topology {

namespace {

/// Two ranks a device of `host` stand for all of them.
std::vector<Rank> some_of(const World& world, const std::vector<Rank>& host) {
  std::map<NodeId, int> seen;
  std::vector<Rank> some;
  for (const Rank rank : host)
    if (seen[world.seat(rank).device]++ < 2) some.push_back(rank);
  return some;
}

std::string name_of(const World& world, Rank from, Rank to) {
  const Seat &a = world.seat(from), &b = world.seat(to);
  if (a.host == b.host) return a.device == b.device ? "same node, same device" : "same node";
  return a.port == b.port ? "other node, same rail" : "other node, other rail";
}

}  // namespace

std::vector<PairKind> kinds_of_pairs(const World& world, const Rules& rules) {
  const auto hosts = ranks_by_host(world);
  std::vector<std::size_t> others{0};
  if (hosts.size() > 1) others.push_back(1);
  if (hosts.size() > 2) others.push_back(hosts.size() - 1);
  using Key = std::tuple<std::string, Means, PathClass, PathClass>;
  std::map<Key, PairKind> kinds;
  for (const Rank from : some_of(world, hosts[0]))
    for (const std::size_t other : others)
      for (const Rank to : some_of(world, hosts[other])) {
        if (from == to) continue;
        PairKind kind{name_of(world, from, to), from, to, choose(world, from, to, rules)};
        const auto [near, far] = std::minmax(kind.choice.route.leaving.kind, kind.choice.route.arriving.kind);
        kinds.try_emplace({kind.name, kind.choice.means, near, far}, kind);
      }
  std::vector<PairKind> list;
  list.reserve(kinds.size());
  for (auto& [key, kind] : kinds) list.push_back(std::move(kind));
  std::ranges::sort(list, {}, [](const PairKind& kind) { return std::pair(kind.from, kind.to); });
  return list;
}

std::string describe(const World& world, const std::vector<PairKind>& kinds) {
  std::string text;
  for (const PairKind& kind : kinds)
    text += fmt::format("{}: {}", kind.name, describe(world, kind.from, kind.to, kind.choice));
  return text;
}

}  // namespace tutti::topology
