#include <utility>

#include "collectives/algorithms/make.hpp"
#include "collectives/algorithms/patterns.hpp"

namespace tutti::make {

/// Everybody sends to everybody.
Schedule all_gather_all_pairs(int ranks, Rank /*root*/) {
  Builder b("all_pairs", Collective::all_gather, ranks, ranks, 2);
  for (Rank me = 0; me < ranks; ++me) {
    to_all(b.at(me, 0).store(out(me)).fold(in(0)), me, ranks);
    for (int i = 1; i < ranks; ++i) b.at(me, 1).store(out((me + i) % ranks)).from((me + i) % ranks);
  }
  return std::move(b).build();
}

/// Every chunk goes round.
Schedule all_gather_ring(int ranks, Rank /*root*/) {
  Builder b("ring", Collective::all_gather, ranks, ranks);
  b.credits(2);  // a step waits for room and for a message at once, and the ring is a circle
  for (Rank me = 0; me < ranks; ++me) {
    Builder::At own = b.at(me).store(out(me)).fold(in(0));
    if (ranks > 1) own.to(wrap(me + 1, ranks));
    for (int hop = 1; hop < ranks; ++hop) {
      Builder::At copy = b.at(me).store(out(wrap(me - hop, ranks))).from(wrap(me - 1, ranks));
      if (hop + 1 < ranks) copy.to(wrap(me + 1, ranks));
    }
  }
  return std::move(b).build();
}

/// Recursive doubling.
Schedule all_gather_doubling(int ranks, Rank /*root*/) {
  Builder b("doubling", Collective::all_gather, ranks, ranks);
  for (Rank me = 0; me < ranks; ++me) b.at(me).store(out(me)).fold(in(0));
  double_up(b, ranks);
  return std::move(b).build();
}

/// Everybody writes its input into all outputs.
Schedule all_gather_direct(int ranks, Rank /*root*/) {
  Builder b("direct", Collective::all_gather, ranks, ranks);
  meet(b, ranks);
  for (Rank me = 0; me < ranks; ++me) {
    Builder::At step = b.at(me).fold(in(0));
    for (int i = 0; i < ranks; ++i) step.store(out_of((me + i) % ranks, me, me));
  }
  meet(b, ranks);
  return std::move(b).build();
}

/// Everybody fetches all inputs.
Schedule all_gather_direct_pull(int ranks, Rank /*root*/) {
  Builder b("direct_pull", Collective::all_gather, ranks, ranks);
  meet(b, ranks);
  for (Rank me = 0; me < ranks; ++me) {
    for (int i = 0; i < ranks; ++i)
      b.at(me).store(out((me + i) % ranks)).fold(in_of((me + i) % ranks, me, 0));
  }
  meet(b, ranks);
  return std::move(b).build();
}

}  // namespace tutti::make
