/// \file
/// Authenticated connections of one communicator that peers have opened and no FIFO has taken yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

#include <tutti/types.hpp>

#include "base/fork_guard.hpp"

namespace tutti::transport::tcp {

/// Filed by the listener's thread, taken by the transport's.
class Inbox {
 public:
  Inbox();
  /// `from`: the world rank. A connection for the same place that nobody took is closed: its rank has tried
  /// again.
  void file(Rank from, int channel, int stream, FileDescriptor connection);
  /// Empty when there is none.
  PrivateDescriptor take(Rank from, int channel, int stream);
  /// Connections filed so far: a cheap way to see that looking again is useless.
  [[nodiscard]] std::uint64_t filed() const { return filed_.load(std::memory_order_acquire); }
  /// Readable (poll) when a connection was filed since the last `clear_event`.
  [[nodiscard]] int event() const { return event_.get(); }
  void clear_event() const;

 private:
  std::mutex mutex_;
  std::map<std::tuple<Rank, int, int>, PrivateDescriptor> connections_;
  std::atomic<std::uint64_t> filed_{0};
  PrivateDescriptor event_;
};

}  // namespace tutti::transport::tcp
