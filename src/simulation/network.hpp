/// \file
/// What messages cross and what that costs: the model's constants. Seconds, bytes, bytes a second.
///
/// A message costs its sender and its receiver `overhead` each, occupies its route for `gap` plus its bytes
/// at the bandwidth it gets, and arrives `alpha` later: LogGP (Alexandrov et al. 1995) with links that are
/// shared by max-min fairness (Bertsekas, Gallager 1992, 6.5.2).
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <tutti/types.hpp>

namespace tutti::simulation {

/// What a message costs on one kind of way.
struct PathCost {
  double alpha = 0;             ///< s from the last byte sent to the message being seen
  double send_overhead = 0;     ///< s of the sender a message
  double receive_overhead = 0;  ///< s of the receiver a message
  double gap = 0;               ///< s that a message occupies its route besides its bytes
  double receive_byte = 0;      ///< s of the receiver a byte, besides copying it
  bool copies = true;           ///< sends copy to, and receives from, memory of the transport
  bool views = true;            ///< but sends of schedules that allow it, which read the caller's memory
  bool network = false;         ///< needs a queue pair
  int credits = 4;              ///< messages under way in a FIFO
};

/// The links between two ranks, in the direction of the data.
struct Route {
  int cost = 0;  ///< index in Network::costs
  int hops = 0;
  std::array<int, 16> links{};  ///< the first `hops` count
  void cross(int link);         ///< Throws Error(unsupported) beyond 16
};

/// What the work of a rank costs.
struct Processor {
  double call = 0;          ///< s a call, before its first step
  double step = 0;          ///< s a step
  double copy = 0;          ///< s a byte written
  double fold = 0;          ///< s a byte for every source after the first
  bool serial = true;       ///< one thread runs all lanes of a rank; otherwise they run side by side
  bool multicasts = false;  ///< a message to all other ranks is written once
};

struct Network {
  int ranks = 1;
  int node_size = 0;              ///< ranks a node; 0: all ranks are one
  std::vector<double> bandwidth;  ///< by link
  std::vector<PathCost> costs;
  Processor processor;
  std::function<Route(Rank from, Rank to)> route;
  std::function<std::string(int link)> link_name;
  std::function<int(Rank)> adapter;  ///< the NIC port of a rank, numbered over all nodes; may be empty
  double queue_pairs_cached = std::numeric_limits<double>::infinity();  ///< contexts an adapter holds
  double queue_pair_miss = 0;  ///< s of gap for a message whose queue pair is not among them
  double incast = 0;  ///< a link that n flows share carries 1 / (1 + incast (n - 1)) of its bandwidth

  /// Whether any of its ways has views.
  [[nodiscard]] bool views() const;
};

}  // namespace tutti::simulation
