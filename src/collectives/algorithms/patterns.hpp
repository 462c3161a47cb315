/// \file
/// Moves that several algorithms share.
#pragma once

#include <vector>

#include <tutti/schedule.hpp>

namespace tutti::make {

/// `rank` modulo `ranks`, also for a rank down to -`ranks`.
constexpr Rank wrap(int rank, int ranks) { return (rank + ranks) % ranks; }

/// Sends what the step holds to every other rank, in one step: a shared-memory transport writes it once.
/// Ranks after `self` first, so that not everybody begins with rank 0.
Builder::At to_all(Builder::At step, Rank self, int ranks, int channel = 0, int count = 1);

/// Folds everybody's message and `own` in the order of ranks, which makes the result independent of the
/// algorithm.
Builder::At fold_all(Builder::At step, Rank self, int ranks, Operand own);
/// The same for chunks that are read from the memory of all ranks: `first` of each rank's input.
Builder::At fold_inputs(Builder::At step, Rank self, int ranks, int first);

/// `chunk` of another rank's input or output, or of the rank's own.
constexpr Operand in_of(Rank owner, Rank self, int chunk) { return in(chunk, 1, owner == self ? -1 : owner); }
constexpr Operand out_of(Rank owner, Rank self, int chunk) {
  return out(chunk, 1, owner == self ? -1 : owner);
}

/// The steps of `self` in a ring that reduces: chunk c starts at rank c + 1 and is complete at rank c, in the
/// last one, which this returns.
Builder::At ring_reduce(Builder& builder, Rank self, int ranks);

/// Every rank tells every other one that it has come this far, and waits until all have.
void meet(Builder& builder, int ranks);
/// The root tells every other rank that it has come this far; they wait for it.
void root_tells(Builder& builder, int ranks, Rank root);
/// Every other rank tells the root; it waits for all.
void root_waits(Builder& builder, int ranks, Rank root);

/// A binary tree over the ranks in which in-order traversal counts them: rank 0 is the root and has one
/// child, odd ranks are leaves (Sanders, Speck, Traff 2009). -1 for the root.
Rank tree_parent(Rank rank, int ranks);
/// In ascending order.
std::vector<Rank> tree_children(Rank rank, int ranks);

/// What a rank does in one round of recursive halving; played backwards, with data the other way, one of
/// doubling.
struct Halving {
  Rank rank = 0;
  int keep_first = 0, keep_count = 0;  ///< chunks of the rank's own half
  int give_first = 0, give_count = 0;  ///< chunks of the other half, given to `partner`
  Rank partner = 0;
  std::vector<Rank> givers;  ///< who gives this rank theirs of the own half: one rank, two or none
};

/// Recursive halving of ranks [0, ranks) into halves whose ranks pair up, down to single ranks:
/// ceil(log2(ranks)) rounds for any number of ranks. Of an odd number the first half has one more, whose last
/// two ranks both give to the last of the second half; that one gives to the former of the two.
std::vector<std::vector<Halving>> halving_rounds(int ranks);
/// Reduces the chunks of all inputs: chunk c ends at rank c, in the output. Partial results lie in `partial`,
/// a space of one chunk for every rank. Nothing to do for one rank.
void halve(Builder& builder, int ranks, Space partial);
/// Spreads output chunk c of rank c to all outputs.
void double_up(Builder& builder, int ranks);

}  // namespace tutti::make
