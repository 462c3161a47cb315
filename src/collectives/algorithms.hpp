/// \file
/// The algorithms that come with the library, as values. docs/algorithms.md says what each costs.
#pragma once

#include <span>
#include <string_view>

#include <tutti/schedule.hpp>

namespace tutti {

/// How to make a schedule for any number of ranks, and what the tests prove about all of them.
struct Algorithm {
  std::string_view name;
  Collective collective = Collective::all_reduce;
  Schedule (*flat)(int ranks, Rank root) = nullptr;  ///< `root` counts where the collective has one
  bool in_place = false;                             ///< proved for input and output that share memory, too
  bool views =
      false;  ///< proved when messages are views of the sender's memory (also in place, if `in_place`)
  bool one_sided = false;  ///< reads or writes other ranks' memory, and sends nothing but tokens
  bool writes_peers = false;
  Schedule (*by_nodes)(int ranks, int node_size) = nullptr;  ///< instead of `flat`
  bool in_place_in_turn = false;  ///< not `in_place`, but proved so with the lanes of each rank `in_turn`

  /// The schedule. `node_size`: nodes are so many consecutive ranks, of which the last may have fewer; 0: all
  /// ranks are one node. Only algorithms `by_nodes` look at it.
  [[nodiscard]] Schedule make(int ranks, Rank root, int node_size = 0) const;
};

/// All of them; of one collective, the simplest first.
std::span<const Algorithm> algorithms();
/// nullptr if there is none of that name.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

}  // namespace tutti
