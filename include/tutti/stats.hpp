/// \file
/// What a communicator has moved.
#pragma once

#include <cstdint>

namespace tutti {

/// Counters of one communicator on this rank, since it was made.
struct Stats {
  std::uint64_t operations = 0;     ///< calls completed; a group counts as what is in it
  std::uint64_t messages_sent = 0;  ///< a message to many ranks at once counts once
  std::uint64_t bytes_sent = 0;     ///< payload, without headers
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;
  /// Into or out of the transports' own buffers, by steps that only send or only receive. What is folded, or
  /// stored and sent on, passes them without a copy of its own, and does not count. Of zero-copy calls only
  /// what ranks tell each other counts: where their buffers are, some hundred bytes, which are also messages.
  std::uint64_t bytes_copied = 0;
  std::uint64_t bytes_direct = 0;  ///< read from or written to peers' memory directly
  /// Bytes of buffers of the transports, and of shared memory: what this rank allocated or registered, and
  /// the rings by which it sends, each as far as it is ever used, though what was not reached takes none.
  std::uint64_t memory_held = 0;
  std::uint64_t queue_pairs = 0;  ///< RDMA queue pairs to peers that this rank holds now; made at first use
  std::uint64_t queue_pairs_closed = 0;  ///< because they were idle; the next use makes new ones
};

}  // namespace tutti
