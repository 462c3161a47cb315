#include <utility>

#include "collectives/algorithms/make.hpp"
#include "collectives/algorithms/patterns.hpp"

namespace tutti::make {

/// Everybody sends to the root, which folds.
Schedule reduce_all_pairs(int ranks, Rank root) {
  Builder b("all_pairs", Collective::reduce, ranks, 1);
  b.root(root);
  for (Rank me = 0; me < ranks; ++me) {
    if (me != root) b.at(me).fold(in(0)).to(root);
  }
  fold_all(b.at(root).store(out(0)), root, ranks, in(0));
  return std::move(b).build();
}

/// Rank c folds chunk c of all ranks and sends the result to the root.
Schedule reduce_two_shot(int ranks, Rank root) {
  Builder b("two_shot", Collective::reduce, ranks, ranks, 3);
  b.root(root);
  for (Rank me = 0; me < ranks; ++me) {
    for (int i = 1; i < ranks; ++i) b.at(me, 0).fold(in((me + i) % ranks)).to((me + i) % ranks);
    fold_all(b.at(me, 1).store(me == root ? out(me) : message(root, 1)), me, ranks, in(me));
    if (me != root) b.at(root, 2).store(out(me)).from(me, 1);
  }
  return std::move(b).build();
}

/// A binary tree: every rank folds what its children send into its own and sends it on, piece after piece.
Schedule reduce_tree(int ranks, Rank root) {
  Builder b("tree", Collective::reduce, ranks, 1);
  b.root(root);
  const auto rank_at = [&](int place) { return (place + root) % ranks; };
  for (int place = 0; place < ranks; ++place) {
    Builder::At step = b.at(rank_at(place)).fold(in(0));
    for (const int child : tree_children(place, ranks)) step.from(rank_at(child));
    if (place == 0) step.store(out(0)).complete();
    if (place != 0) step.to(rank_at(tree_parent(place, ranks)));
  }
  return std::move(b).build();
}

/// Rank c folds chunk c of all inputs into the root's output.
Schedule reduce_direct(int ranks, Rank root) {
  Builder b("direct", Collective::reduce, ranks, ranks);
  b.root(root);
  meet(b, ranks);
  for (Rank me = 0; me < ranks; ++me) fold_inputs(b.at(me).store(out_of(root, me, me)), me, ranks, me);
  meet(b, ranks);
  return std::move(b).build();
}

/// The root folds all inputs.
Schedule reduce_direct_pull(int ranks, Rank root) {
  Builder b("direct_pull", Collective::reduce, ranks, 1);
  b.root(root);
  root_waits(b, ranks, root);
  fold_inputs(b.at(root).store(out(0)), root, ranks, 0);
  root_tells(b, ranks, root);
  return std::move(b).build();
}

}  // namespace tutti::make
