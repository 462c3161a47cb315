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
  std::uint64_t bytes_copied =
      0;  ///< through the transports' own buffers; zero-copy paths leave it unchanged
  std::uint64_t bytes_direct = 0;  ///< read from or written to peers' memory directly
  std::uint64_t memory_held = 0;  ///< bytes of transport buffers and shared memory that this rank has touched
  std::uint64_t queue_pairs = 0;  ///< RDMA queue pairs to peers that this rank holds now; made at first use
  std::uint64_t queue_pairs_closed = 0;  ///< because they were idle; the next use makes new ones
};

}  // namespace tutti
