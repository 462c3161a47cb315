/// \file
/// Ranks in nodes, for algorithms that treat neighbours differently.
#pragma once

#include <algorithm>

#include <tutti/types.hpp>

namespace tutti::make {

/// Nodes of `size` consecutive ranks each; the last one may have fewer. Rail l joins the l-th ranks of all
/// nodes. Where a node has no l-th rank, the one of number l modulo its ranks stands in: a rank of a smaller
/// node serves several rails.
struct Nodes {
  int ranks = 1;
  int size = 1;

  [[nodiscard]] constexpr int count() const { return (ranks + size - 1) / size; }
  /// Of Builder::ranks: where nodes are equal, each may do what the one before it does.
  [[nodiscard]] constexpr int period() const { return ranks % size == 0 ? size : 0; }
  [[nodiscard]] constexpr int of(Rank rank) const { return rank / size; }
  [[nodiscard]] constexpr Rank first(int node) const { return node * size; }
  [[nodiscard]] constexpr int size_of(int node) const { return std::min(size, ranks - first(node)); }
  /// Who serves a rail in a node; also for a node of -count() ... 2 count() - 1, counted round.
  [[nodiscard]] constexpr Rank on_rail(int node, int rail) const {
    const int n = (node + count()) % count();
    return first(n) + rail % size_of(n);
  }
  /// The other ranks of a rank's node, those after it first: i = 1 ... size_of(of(self)) - 1.
  [[nodiscard]] constexpr Rank neighbour(Rank self, int i) const {
    const int node = of(self);
    return first(node) + (self - first(node) + i) % size_of(node);
  }
};

}  // namespace tutti::make
