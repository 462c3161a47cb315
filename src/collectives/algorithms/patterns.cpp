#include "collectives/algorithms/patterns.hpp"

#include <algorithm>
#include <utility>

namespace tutti::make {
namespace {

Operand memory(Space space, int first, int count) {
  return {Operand::Kind::memory, space, 0, -1, first, count};
}

/// The halves of one group: ranks [first, first + left), and the `right` ones after these.
void pair_up(std::vector<Halving>& round, int first, int left, int right) {
  const int middle = first + left;
  for (int i = 0; i < left; ++i) {
    round.push_back({first + i, first, left, middle, right, middle + std::min(i, right - 1), {}});
    if (i < right) round.back().givers.push_back(middle + i);
  }
  for (int i = 0; i < right; ++i)
    round.push_back({middle + i, middle, right, first, left, first + i, {first + i}});
  if (left > right) round.back().givers.push_back(middle - 1);
}

}  // namespace

Builder::At to_all(Builder::At step, Rank self, int ranks, int channel, int count) {
  for (int i = 1; i < ranks; ++i) step.to((self + i) % ranks, channel, count);
  return step;
}

Builder::At fold_all(Builder::At step, Rank self, int ranks, Operand own) {
  for (Rank rank = 0; rank < ranks; ++rank) step.fold(rank == self ? own : message(rank));
  return step.complete();
}

Builder::At fold_inputs(Builder::At step, Rank self, int ranks, int first) {
  for (Rank rank = 0; rank < ranks; ++rank) step.fold(in_of(rank, self, first));
  return step.complete();
}

Builder::At ring_reduce(Builder& builder, Rank self, int ranks) {
  const Rank next = wrap(self + 1, ranks);
  const Rank prev = wrap(self - 1, ranks);
  if (ranks > 1) builder.at(self).fold(in(prev)).to(next);
  for (int hop = 2; hop < ranks; ++hop)
    builder.at(self).fold(in(wrap(self - hop, ranks))).from(prev).to(next);
  Builder::At last = builder.at(self).fold(in(self)).complete();
  if (ranks > 1) last.from(prev);
  return last;
}

void meet(Builder& builder, int ranks) {
  if (ranks == 1) return;
  for (Rank rank = 0; rank < ranks; ++rank) {
    to_all(builder.at(rank), rank, ranks, 0, 0);
    Builder::At wait = builder.at(rank);
    for (Rank other = 0; other < ranks; ++other) {
      if (other != rank) wait.from(other, 0, 0);
    }
  }
}

void root_tells(Builder& builder, int ranks, Rank root) {
  if (ranks == 1) return;
  to_all(builder.at(root), root, ranks, 0, 0);
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (rank != root) builder.at(rank).from(root, 0, 0);
  }
}

void root_waits(Builder& builder, int ranks, Rank root) {
  if (ranks == 1) return;
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (rank != root) builder.at(rank).to(root, 0, 0);
  }
  Builder::At wait = builder.at(root);
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (rank != root) wait.from(rank, 0, 0);
  }
}

Rank tree_parent(Rank rank, int ranks) {
  if (rank == 0) return -1;
  // The subtree of `rank` spans 2^k - 1 ranks on either side, 2^k its lowest set bit; its parent is 2^k to
  // one side, the one that leaves it an odd multiple of 2^(k+1), or to the left where the ranks end.
  const int reach = rank & -rank;
  const int parent = (rank & (2 * reach)) != 0 ? rank - reach : rank + reach;
  return parent < ranks ? parent : rank - reach;
}

std::vector<Rank> tree_children(Rank rank, int ranks) {
  std::vector<Rank> children;
  for (int reach = 1; reach < ranks; reach *= 2) {
    for (const Rank child : {rank - reach, rank + reach}) {
      if (child >= 0 && child < ranks && tree_parent(child, ranks) == rank) children.push_back(child);
    }
  }
  std::sort(children.begin(), children.end());
  return children;
}

std::vector<std::vector<Halving>> halving_rounds(int ranks) {
  std::vector<std::vector<Halving>> rounds;
  std::vector<std::pair<int, int>> groups = {{0, ranks}};  // first rank, number of ranks
  while (groups.front().second > 1) {
    std::vector<Halving>& round = rounds.emplace_back();
    std::vector<std::pair<int, int>> halves;
    for (const auto& [first, count] : groups) {
      const int right = count / 2;
      const int left = count - right;
      halves.emplace_back(first, left);
      if (right == 0) continue;
      halves.emplace_back(first + left, right);
      pair_up(round, first, left, right);
    }
    groups = std::move(halves);
  }
  return rounds;
}

void halve(Builder& builder, int ranks, Space partial) {
  std::vector<bool> folded(static_cast<std::size_t>(ranks), false);
  const auto held = [&](Rank rank, int first, int count) {
    return folded[static_cast<std::size_t>(rank)] ? memory(partial, first, count) : in(first, count);
  };
  for (const auto& round : halving_rounds(ranks)) {
    for (const auto& [me, keep, kept, give, given, partner, givers] : round)
      builder.at(me).fold(held(me, give, given)).to(partner, 0, given);
    for (const auto& [me, keep, kept, give, given, partner, givers] : round) {
      if (givers.empty()) continue;
      Builder::At fold = builder.at(me).fold(held(me, keep, kept));
      for (const Rank giver : givers) fold.from(giver, 0, kept);
      const Operand result = out(partial == Space::output ? me : 0);
      kept > 1 ? fold.store(memory(partial, keep, kept)) : fold.store(result).complete();
      folded[static_cast<std::size_t>(me)] = true;
    }
  }
}

void double_up(Builder& builder, int ranks) {
  auto rounds = halving_rounds(ranks);
  std::reverse(rounds.begin(), rounds.end());
  for (const auto& round : rounds) {
    for (const Halving& half : round) {
      if (half.givers.empty()) continue;
      Builder::At send = builder.at(half.rank).fold(out(half.keep_first, half.keep_count));
      for (const Rank giver : half.givers) send.to(giver, 0, half.keep_count);
    }
    for (const Halving& half : round) {
      builder.at(half.rank)
          .store(out(half.give_first, half.give_count))
          .from(half.partner, 0, half.give_count);
    }
  }
}

}  // namespace tutti::make
