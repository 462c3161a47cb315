/// \file
/// The kinds of pairs that a world's ranks form: by what means each talks stands for all of its kind.
#pragma once

#include <string>
#include <vector>

#include "topology/choice.hpp"
#include "topology/world.hpp"

namespace tutti::topology {

/// Pairs of ranks that talk alike.
struct PairKind {
  std::string name{};     ///< "same node", "other node, same rail", ...
  Rank from = 0, to = 0;  ///< one such pair
  Choice choice{};
};

/// In the order of `from`, then `to`. Hosts are taken to be of one kind: those next to the first one, and the
/// last one, speak for all.
std::vector<PairKind> kinds_of_pairs(const World& world, const Rules& rules);

/// `describe` for each, with its name in front.
std::string describe(const World& world, const std::vector<PairKind>& kinds);

}  // namespace tutti::topology
