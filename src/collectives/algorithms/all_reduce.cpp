#include <bit>
#include <utility>

#include "collectives/algorithms/make.hpp"
#include "collectives/algorithms/patterns.hpp"

namespace tutti::make {

/// One-shot: everybody sends everything to everybody and folds everything.
Schedule all_reduce_all_pairs(int ranks, Rank /*root*/) {
  Builder b("all_pairs", Collective::all_reduce, ranks, 1);
  for (Rank me = 0; me < ranks; ++me) {
    if (ranks > 1) to_all(b.at(me).fold(in(0)), me, ranks);
    fold_all(b.at(me).store(out(0)), me, ranks, in(0));
  }
  return std::move(b).build();
}

/// Rank c folds chunk c of all ranks and sends the result to all: a reduce-scatter and an all-gather of one
/// hop each.
Schedule all_reduce_two_shot(int ranks, Rank /*root*/) {
  Builder b("two_shot", Collective::all_reduce, ranks, ranks, 3);
  for (Rank me = 0; me < ranks; ++me) {
    for (int i = 1; i < ranks; ++i) b.at(me, 0).fold(in((me + i) % ranks)).to((me + i) % ranks);
    fold_all(to_all(b.at(me, 1).store(out(me)), me, ranks, 1), me, ranks, in(me));
    for (int i = 1; i < ranks; ++i) b.at(me, 2).store(out((me + i) % ranks)).from((me + i) % ranks, 1);
  }
  return std::move(b).build();
}

/// Chunk c starts at rank c + 1, is complete at rank c, and goes round once more (Patarasuk, Yuan 2009). Each
/// hop is one step.
Schedule all_reduce_ring(int ranks, Rank /*root*/) {
  Builder b("ring", Collective::all_reduce, ranks, ranks, 2);
  b.credits(2);  // a step waits for room and for a message at once, and the ring is a circle
  for (Rank me = 0; me < ranks; ++me) {
    const Rank next = wrap(me + 1, ranks);
    const Rank prev = wrap(me - 1, ranks);
    Builder::At last = ring_reduce(b, me, ranks).store(out(me));
    if (ranks > 1) last.to(next, 1);
    for (int hop = 1; hop < ranks; ++hop) {
      Builder::At copy = b.at(me, 1).store(out(wrap(me - hop, ranks))).from(prev, hop == 1 ? 1 : 2);
      if (hop + 1 < ranks) copy.to(next, 2);
    }
  }
  return std::move(b).build();
}

/// Two binary trees, each of which reduces and broadcasts half of the data. The leaves of one are within the
/// other, so that all ranks send and receive alike (Sanders, Speck, Traff 2009).
Schedule all_reduce_double_tree(int ranks, Rank /*root*/) {
  Builder b("double_tree", Collective::all_reduce, ranks, 2, 4);
  for (int tree = 0; tree < 2; ++tree) {
    const auto rank_at = [&](int place) { return (place + tree) % ranks; };  // leaves are the odd places
    const int up = 2 * tree;
    const int down = up + 1;
    for (int place = 0; place < ranks; ++place) {
      const bool top = place == 0;
      const Rank parent = top ? -1 : rank_at(tree_parent(place, ranks));
      Builder::At reduce = b.at(rank_at(place), up).fold(in(tree));
      for (const int child : tree_children(place, ranks)) reduce.from(rank_at(child), up);
      if (!top) reduce.to(parent, up);
      Builder::At spread =
          (top ? reduce.complete() : b.at(rank_at(place), down).from(parent, down)).store(out(tree));
      for (const int child : tree_children(place, ranks)) spread.to(rank_at(child), down);
    }
  }
  return std::move(b).build();
}

namespace {

/// The largest power of two of ranks play. Of the others, one stands beside each of the first players.
struct Players {
  explicit Players(int ranks)
      : count(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), pairs(ranks - count) {}
  [[nodiscard]] Rank rank(int player) const { return player < pairs ? 2 * player : player + pairs; }
  int count, pairs;
};

/// The steps of a player. Who is first in order comes first in the fold, so all results are equal.
void play(Builder& b, const Players& players, int me) {
  const Rank rank = players.rank(me);
  const bool paired = me < players.pairs;
  Builder::At first = b.at(rank).fold(in(0));
  if (paired) first.from(rank + 1).store(out(0));
  first.to(players.rank(me ^ 1));
  Operand mine = paired ? out(0) : in(0);
  for (int distance = 1; distance < players.count; distance *= 2, mine = out(0)) {
    const Rank partner = players.rank(me ^ distance);
    Builder::At both = b.at(rank).store(out(0));
    (me & distance) == 0 ? both.fold(mine).from(partner) : both.from(partner).fold(mine);
    if (2 * distance < players.count)
      both.to(players.rank(me ^ (2 * distance)));
    else if (both.complete(); paired)
      both.to(rank + 1);
  }
}

}  // namespace

/// Recursive doubling (Thakur, Rabenseifner, Gropp 2005): everything goes to one partner a round, and the
/// fewest messages of all. Beyond a power of two of ranks, pairs of neighbours fold into the first of the
/// two, which gives the result back.
Schedule all_reduce_doubling(int ranks, Rank /*root*/) {
  Builder b("doubling", Collective::all_reduce, ranks, 1);
  if (ranks == 1) b.at(0).store(out(0)).fold(in(0)).complete();
  const Players players(ranks);
  for (int player = 0; player < players.count && ranks > 1; ++player) {
    const Rank rank = players.rank(player);
    if (player < players.pairs) {
      b.at(rank + 1).fold(in(0)).to(rank);
      b.at(rank + 1).store(out(0)).from(rank);
    }
    play(b, players, player);
  }
  return std::move(b).build();
}

/// Recursive halving, then doubling (Thakur, Rabenseifner, Gropp 2005), over uneven halves instead of a power
/// of two of ranks that others fold into first.
Schedule all_reduce_halving_doubling(int ranks, Rank /*root*/) {
  Builder b("halving_doubling", Collective::all_reduce, ranks, ranks);
  if (ranks == 1) b.at(0).store(out(0)).fold(in(0)).complete();
  halve(b, ranks, Space::output);
  double_up(b, ranks);
  return std::move(b).build();
}

/// Rank c folds chunk c of all inputs into all outputs.
Schedule all_reduce_direct(int ranks, Rank /*root*/) {
  Builder b("direct", Collective::all_reduce, ranks, ranks);
  meet(b, ranks);
  for (Rank me = 0; me < ranks; ++me) {
    Builder::At step = b.at(me);
    for (int i = 0; i < ranks; ++i) step.store(out_of((me + i) % ranks, me, me));
    fold_inputs(step, me, ranks, me);
  }
  meet(b, ranks);
  return std::move(b).build();
}

/// Rank c folds chunk c of all inputs; the others fetch it.
Schedule all_reduce_direct_pull(int ranks, Rank /*root*/) {
  Builder b("direct_pull", Collective::all_reduce, ranks, ranks);
  meet(b, ranks);
  for (Rank me = 0; me < ranks; ++me) fold_inputs(b.at(me).store(out(me)), me, ranks, me);
  meet(b, ranks);
  for (Rank me = 0; me < ranks; ++me) {
    for (int i = 1; i < ranks; ++i)
      b.at(me).store(out((me + i) % ranks)).fold(out((me + i) % ranks, 1, (me + i) % ranks));
  }
  meet(b, ranks);
  return std::move(b).build();
}

}  // namespace tutti::make
