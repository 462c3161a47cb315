/// \file
/// Which ranks are simulated. Ranks that cannot be told apart do the same at the same time, so one of each
/// kind is enough: ten thousand ranks become a few.
///
/// Kinds are found by colour refinement (Paige, Tarjan 1987) of ranks, FIFOs and links together: two ranks
/// are alike when their steps are, and their FIFOs lead over links that are alike, by ends that are alike, to
/// ranks that are alike. In such a partition every rank of a kind has exactly one FIFO of each of its kinds,
/// and every link of a kind is crossed by equally many FIFOs of each kind; so equal beginnings lead to equal
/// rates and equal times, and the simulation of the representatives is exact.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include <tutti/schedule.hpp>

#include "simulation/flows.hpp"
#include "simulation/network.hpp"

namespace tutti::simulation {

/// One kind of FIFO.
struct FifoKind {
  Rank from = 0, to = 0;            ///< one of them
  int channel = 0;                  ///< max_channels and above: multicasts
  int cost = 0;                     ///< index in Network::costs
  std::vector<Crossing> crossings;  ///< links are kinds of links
};

struct Quotient {
  std::vector<Rank> representatives;  ///< of every kind of rank
  std::vector<int> members;           ///< ranks of every kind
  std::vector<int> by_rank;           ///< of every rank, its kind
  /// Other ranks that a representative's messages over the network go to or come from. Empty when everybody
  /// is simulated: `fifos` says it.
  std::vector<int> peers;
  std::vector<int> links;        ///< of every kind of link, one: index in Network::bandwidth
  std::vector<int> links_alike;  ///< how many there are of every kind
  /// The kind of FIFO from one rank to another, of which one is a representative: index in `fifos`, to which
  /// it may add.
  std::function<int(Quotient& self, Rank from, Rank to, int channel)> kind;
  std::vector<FifoKind> fifos;
};

/// What builds a schedule; called more than once.
using Make = std::function<Schedule()>;

/// Every rank is a kind of its own. `network` outlives the result, here and below.
Quotient everybody(const Network& network);
/// The coarsest kinds, for chunks that are all equal. Two runs of `make`, none of which holds the schedule.
/// Throws Error(unsupported) when steps touch other ranks' memory, and TooManyFifos, before there are more of
/// them, or four times as many messages of steps.
Quotient kinds(const Network& network, const Make& make,
               std::uint64_t most_fifos = std::numeric_limits<std::uint64_t>::max());

/// The schedule is too large to be looked at.
struct TooManyFifos {};

}  // namespace tutti::simulation
