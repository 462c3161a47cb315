#include <utility>

#include "collectives/algorithms/make.hpp"
#include "collectives/algorithms/patterns.hpp"

namespace tutti::make {

/// Everybody sends to the root.
Schedule gather_all_pairs(int ranks, Rank root) {
  Builder b("all_pairs", Collective::gather, ranks, ranks);
  b.root(root).at(root).store(out(root)).fold(in(0));
  for (int i = 1; i < ranks; ++i) {
    const Rank other = (root + i) % ranks;
    b.at(other).fold(in(0)).to(root);
    b.at(root).store(out(other)).from(other);
  }
  return std::move(b).build();
}

/// Everybody writes into the root's output.
Schedule gather_direct(int ranks, Rank root) {
  Builder b("direct", Collective::gather, ranks, ranks);
  b.root(root);
  root_tells(b, ranks, root);
  for (Rank me = 0; me < ranks; ++me) b.at(me).store(out_of(root, me, me)).fold(in(0));
  root_waits(b, ranks, root);
  return std::move(b).build();
}

/// The root fetches all inputs.
Schedule gather_direct_pull(int ranks, Rank root) {
  Builder b("direct_pull", Collective::gather, ranks, ranks);
  b.root(root);
  root_waits(b, ranks, root);
  for (Rank rank = 0; rank < ranks; ++rank) b.at(root).store(out(rank)).fold(in_of(rank, root, 0));
  root_tells(b, ranks, root);
  return std::move(b).build();
}

/// The root sends to everybody.
Schedule scatter_all_pairs(int ranks, Rank root) {
  Builder b("all_pairs", Collective::scatter, ranks, ranks);
  b.root(root);
  for (int i = 1; i < ranks; ++i) {
    const Rank other = (root + i) % ranks;
    b.at(root).fold(in(other)).to(other);
    b.at(other).store(out(0)).from(root);
  }
  b.at(root).store(out(0)).fold(in(root));
  return std::move(b).build();
}

/// Everybody fetches its chunk from the root.
Schedule scatter_direct_pull(int ranks, Rank root) {
  Builder b("direct_pull", Collective::scatter, ranks, ranks);
  b.root(root);
  root_tells(b, ranks, root);
  for (Rank me = 0; me < ranks; ++me) b.at(me).store(out(0)).fold(in_of(root, me, me));
  root_waits(b, ranks, root);
  return std::move(b).build();
}

}  // namespace tutti::make
