/// \file
/// What tutti-window-perf measures, between ranks 0 and 1: as perftest's ib_write_bw, ib_read_bw and
/// ib_write_lat do.
#pragma once

#include <cstddef>

#include <tutti/tutti.hpp>

namespace tutti::window_perf {

/// Medians over batches.
struct Speed {
  double put = 0, get = 0;  ///< GB/s (10^9 bytes), many transfers under way
};

/// Two ranks with a window of `bytes` each.
class Pair {
 public:
  /// `plain`: ordinary memory in place of the communicator's. Collective.
  Pair(Communicator& comm, std::size_t bytes, bool plain);
  [[nodiscard]] Window& window() { return window_; }
  /// GB/s of rank 0's transfers of `bytes` to and from rank 1, `count` under way, in `batches` batches, each
  /// within the communicator's timeout; what rank 1 returns means nothing. Collective.
  Speed bandwidth(std::size_t bytes, std::size_t count, int batches);
  /// Microseconds from a put of `bytes` with notification to its notification at the other rank: half of the
  /// way there and back, the median of all. Collective.
  double latency(std::size_t bytes, std::size_t count, int batches);
  /// Whether all of the other rank's bytes are here that the last measurement, of this size, was to move: by
  /// its puts, or, of the bandwidth on rank 0, by gets.
  [[nodiscard]] bool intact(std::size_t bytes) const;

 private:
  [[nodiscard]] Rank other() const { return 1 - comm_.rank(); }
  /// Fills what is to be sent, and what is to be received with what is not sent. Collective.
  void prepare(std::size_t bytes);
  /// One of rank 0's batches.
  Speed measure_batch(std::size_t bytes, std::size_t count);
  Communicator& comm_;
  std::size_t bytes_;
  Buffer<std::uint8_t> shared_;
  std::vector<std::uint8_t> plain_;
  std::span<std::uint8_t> memory_;  ///< a half to send from, a half to receive in
  Window window_;
};

}  // namespace tutti::window_perf
