/// \file
/// What a rank must know of all ranks' steps to lower its own.
#pragma once

#include <vector>

#include <tutti/schedule.hpp>

namespace tutti::execution {

/// Does not depend on sizes, and is kept with the schedule: to go through all ranks' steps again when a call
/// has a new size, and nothing of them is in the caches, took eight ranks 10 us each.
struct Overview {
  int largest_count = 1;  ///< chunks of a message
  /// [rank * max_channels + channel]: each message that the rank sends there goes to all others at once, two
  /// or more of them. Senders and receivers decide by this.
  std::vector<bool> multicasts;
  bool lone_multicast = false;  ///< one rank multicasts, and on one channel
  bool one_way = false;         ///< no rank both sends and receives, and all messages are of one channel
};

Overview overview_of(const Schedule& schedule);

}  // namespace tutti::execution
