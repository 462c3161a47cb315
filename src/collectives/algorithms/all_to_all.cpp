#include <algorithm>
#include <utility>

#include "collectives/algorithms/make.hpp"
#include "collectives/algorithms/patterns.hpp"

namespace tutti::make {

/// In round i, rank r sends to rank r + i. Sends do not wait for receives.
Schedule all_to_all_pairwise(int ranks, Rank /*root*/) {
  Builder b("pairwise", Collective::all_to_all, ranks, ranks, 2);
  for (Rank me = 0; me < ranks; ++me) {
    for (int i = 1; i < ranks; ++i) b.at(me, 0).fold(in((me + i) % ranks)).to((me + i) % ranks);
    b.at(me, 0).store(out(me)).fold(in(me));  // while the messages travel
    for (int i = 1; i < ranks; ++i) b.at(me, 1).store(out(wrap(me - i, ranks))).from(wrap(me - i, ranks));
  }
  return std::move(b).build();
}

/// In round i, ranks r and i - r swap their chunks; a chunk is sent before it is overwritten.
Schedule all_to_all_exchange(int ranks, Rank /*root*/) {
  Builder b("exchange", Collective::all_to_all, ranks, ranks);
  for (Rank me = 0; me < ranks; ++me) {
    for (int i = 0; i < ranks; ++i) {
      const Rank peer = wrap(i - me, ranks);
      if (peer == me) {
        b.at(me).store(out(me)).fold(in(me));
      } else {
        b.at(me).fold(in(peer)).to(peer);
        b.at(me).store(out(peer)).from(peer);
      }
    }
  }
  return std::move(b).build();
}

namespace {

/// Copies between blocks [0, ranks) of scratch whose number has bit `reach` and the packed area after them.
/// Returns how many.
int pack(Builder& b, Rank me, int ranks, int reach, bool unpack) {
  int packed = 0;
  for (int first = reach; first < ranks; first += 2 * reach) {
    const int count = std::min(reach, ranks - first);
    const Operand blocks = scratch(first, count);
    const Operand area = scratch(ranks + packed, count);
    b.at(me).store(unpack ? blocks : area).fold(unpack ? area : blocks);
    packed += count;
  }
  return packed;
}

}  // namespace

/// Bruck et al. 1997: block i travels i ranks far, one hop for every bit of i, with all others of that bit in
/// one message.
Schedule all_to_all_bruck(int ranks, Rank /*root*/) {
  Builder b("bruck", Collective::all_to_all, ranks, ranks, 1, ranks + ranks / 2);
  for (Rank me = 0; me < ranks; ++me) {
    b.at(me).store(scratch(0, ranks - me)).fold(in(me, ranks - me));
    if (me > 0) b.at(me).store(scratch(ranks - me, me)).fold(in(0, me));
    for (int reach = 1; reach < ranks; reach *= 2) {
      const int count = pack(b, me, ranks, reach, false);
      b.at(me).fold(scratch(ranks, count)).to((me + reach) % ranks, 0, count);
      b.at(me).store(scratch(ranks, count)).from(wrap(me - reach, ranks), 0, count);
      pack(b, me, ranks, reach, true);
    }
    for (int i = 0; i < ranks; ++i) b.at(me).store(out(wrap(me - i, ranks))).fold(scratch(i));
  }
  return std::move(b).build();
}

/// Everybody fetches its chunk from all inputs.
Schedule all_to_all_direct_pull(int ranks, Rank /*root*/) {
  Builder b("direct_pull", Collective::all_to_all, ranks, ranks);
  meet(b, ranks);
  for (Rank me = 0; me < ranks; ++me) {
    for (int i = 0; i < ranks; ++i)
      b.at(me).store(out((me + i) % ranks)).fold(in_of((me + i) % ranks, me, me));
  }
  meet(b, ranks);
  return std::move(b).build();
}

}  // namespace tutti::make
