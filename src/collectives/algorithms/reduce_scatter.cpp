#include <utility>

#include "collectives/algorithms/make.hpp"
#include "collectives/algorithms/patterns.hpp"

namespace tutti::make {

/// Everybody sends chunk c to rank c, which folds.
Schedule reduce_scatter_all_pairs(int ranks, Rank /*root*/) {
  Builder b("all_pairs", Collective::reduce_scatter, ranks, ranks, 2);
  for (Rank me = 0; me < ranks; ++me) {
    for (int i = 1; i < ranks; ++i) b.at(me, 0).fold(in((me + i) % ranks)).to((me + i) % ranks);
    fold_all(b.at(me, 1).store(out(0)), me, ranks, in(me));
  }
  return std::move(b).build();
}

/// Chunk c starts at rank c + 1 and is complete at rank c.
Schedule reduce_scatter_ring(int ranks, Rank /*root*/) {
  Builder b("ring", Collective::reduce_scatter, ranks, ranks);
  b.credits(2);  // a step waits for room and for a message at once, and the ring is a circle
  for (Rank me = 0; me < ranks; ++me) ring_reduce(b, me, ranks).store(out(0));
  return std::move(b).build();
}

/// Recursive halving.
Schedule reduce_scatter_halving(int ranks, Rank /*root*/) {
  Builder b("halving", Collective::reduce_scatter, ranks, ranks, 1, ranks > 2 ? ranks : 0);
  if (ranks == 1) b.at(0).store(out(0)).fold(in(0)).complete();
  halve(b, ranks, Space::scratch);
  return std::move(b).build();
}

/// Rank c folds chunk c of all inputs.
Schedule reduce_scatter_direct_pull(int ranks, Rank /*root*/) {
  Builder b("direct_pull", Collective::reduce_scatter, ranks, ranks);
  meet(b, ranks);
  for (Rank me = 0; me < ranks; ++me) fold_inputs(b.at(me).store(out(0)), me, ranks, me);
  meet(b, ranks);
  return std::move(b).build();
}

}  // namespace tutti::make
