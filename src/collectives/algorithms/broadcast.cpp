#include <utility>

#include "collectives/algorithms/make.hpp"
#include "collectives/algorithms/patterns.hpp"

namespace tutti::make {
namespace {

/// One chunk down a tree whose places are counted from the root. `children_of(place)` in the order of
/// sending.
template <class ChildrenOf>
Schedule spread(const char* name, int ranks, Rank root, ChildrenOf children_of) {
  Builder b(name, Collective::broadcast, ranks, 1);
  b.root(root);
  const auto rank_at = [&](int place) { return (place + root) % ranks; };
  std::vector<Rank> parents(static_cast<std::size_t>(ranks), -1);
  for (int place = 0; place < ranks; ++place) {
    const Rank me = rank_at(place);
    const Rank parent = parents[static_cast<std::size_t>(me)];
    Builder::At step = b.at(me).store(out(0)).fold(place == 0 ? in(0) : message(parent));
    for (const int child : children_of(place)) {
      step.to(rank_at(child));
      parents[static_cast<std::size_t>(rank_at(child))] = me;
    }
  }
  return std::move(b).build();
}

}  // namespace

/// The root sends to everybody.
Schedule broadcast_all_pairs(int ranks, Rank root) {
  return spread("all_pairs", ranks, root, [&](int place) {
    std::vector<int> children;
    for (int child = 1; place == 0 && child < ranks; ++child) children.push_back(child);
    return children;
  });
}

/// A binomial tree, the largest subtree first.
Schedule broadcast_tree(int ranks, Rank root) {
  return spread("tree", ranks, root, [&](int place) {
    std::vector<int> children;
    for (int reach = 1; (place & reach) == 0 && reach < ranks; reach *= 2) {
      if (place + reach < ranks) children.insert(children.begin(), place + reach);
    }
    return children;
  });
}

/// From rank to rank, piece after piece.
Schedule broadcast_chain(int ranks, Rank root) {
  return spread("chain", ranks, root, [&](int place) {
    return place + 1 < ranks ? std::vector<int>{place + 1} : std::vector<int>{};
  });
}

/// The root sends chunk c to rank c, which sends it to everybody else (van de Geijn's scatter and
/// all-gather).
Schedule broadcast_scatter_all_gather(int ranks, Rank root) {
  Builder b("scatter_all_gather", Collective::broadcast, ranks, ranks, 2);
  b.root(root);
  for (int i = 1; i < ranks; ++i) {
    const Rank owner = (root + i) % ranks;
    b.at(root).store(out(owner)).fold(in(owner)).to(owner);
    Builder::At pass = b.at(owner).store(out(owner)).from(root);
    for (int k = 1; k < ranks; ++k) {
      const Rank other = (owner + k) % ranks;
      if (other != root) pass.to(other, 1);
    }
    for (int k = 1; k < ranks; ++k) {
      const Rank other = (owner + k) % ranks;
      if (other != root) b.at(other, 1).store(out(owner)).from(owner, 1);
    }
    b.at(owner, 1).store(out(root)).from(root, 1);
  }
  to_all(b.at(root).store(out(root)).fold(in(root)), root, ranks, 1);
  return std::move(b).build();
}

/// Rank c writes chunk c of the root's input into the outputs of all others: read once, and everybody works.
Schedule broadcast_direct(int ranks, Rank root) {
  Builder b("direct", Collective::broadcast, ranks, ranks);
  b.root(root);
  meet(b, ranks);
  for (Rank me = 0; me < ranks; ++me) {
    b.at(root).store(out(me)).fold(in(me));
    if (ranks == 1) break;
    Builder::At step = b.at(me).fold(in_of(root, me, me));
    for (int i = 0; i < ranks; ++i)
      if (const Rank other = (me + i) % ranks; other != root) step.store(out_of(other, me, me));
  }
  meet(b, ranks);
  return std::move(b).build();
}

/// Everybody fetches the root's input.
Schedule broadcast_direct_pull(int ranks, Rank root) {
  Builder b("direct_pull", Collective::broadcast, ranks, 1);
  b.root(root);
  root_tells(b, ranks, root);
  for (Rank me = 0; me < ranks; ++me) b.at(me).store(out(0)).fold(in_of(root, me, 0));
  root_waits(b, ranks, root);
  return std::move(b).build();
}

}  // namespace tutti::make
