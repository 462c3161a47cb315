/// \file
/// Nodes in rows and columns, for algorithms that reach every node in two hops.
#pragma once

#include "collectives/algorithms/nodes.hpp"

namespace tutti::make {

/// As square as the number of nodes allows, and full; a prime number of them makes one row. Node numbers go
/// down the columns. Where nodes are not equally large, every rank is a node.
struct Grid {
  int size = 1;  ///< ranks a node
  int rows = 1, columns = 1;

  Grid(int ranks, int node_size) : size(ranks % node_size == 0 ? node_size : 1) {
    const int nodes = ranks / size;
    for (int r = 1; r * r <= nodes; ++r)
      if (nodes % r == 0) rows = r;
    columns = nodes / rows;
  }
  [[nodiscard]] constexpr int row(Rank rank) const { return rank / size % rows; }
  [[nodiscard]] constexpr int column(Rank rank) const { return rank / size / rows; }
  /// The first rank of a node; also for rows and columns counted round once.
  [[nodiscard]] constexpr Rank first(int row, int column) const {
    return ((column + columns) % columns * rows + (row + rows) % rows) * size;
  }
};

}  // namespace tutti::make
