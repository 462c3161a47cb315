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
  Schedule (*make)(int ranks, Rank root) = nullptr;  ///< `root` counts where the collective has one
  bool in_place = false;                             ///< proved for input and output that share memory, too
  bool views =
      false;  ///< proved when messages are views of the sender's memory (also in place, if `in_place`)
  bool one_sided = false;  ///< reads or writes other ranks' memory, and sends nothing but tokens
  bool writes_peers = false;
};

/// All of them; of one collective, the simplest first.
std::span<const Algorithm> algorithms();
/// nullptr if there is none of that name.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

}  // namespace tutti
