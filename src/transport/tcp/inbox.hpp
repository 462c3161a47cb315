/// \file
/// Authenticated connections of one communicator that peers have opened and no FIFO has taken yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include <tutti/types.hpp>

#include "base/fork_guard.hpp"

namespace tutti::transport::tcp {

/// The one byte that a connecting rank gets after the handshake.
enum class Verdict : std::uint8_t {
  kept = 1,
  crossed = 2,  ///< this rank opens the same connection itself
};

/// Filed by the listener's thread, taken by the transport's.
class Inbox {
 public:
  Inbox();
  /// `from`: the world rank. A connection for the same place that nobody took is closed: its rank has tried
  /// again. Sends the verdict, and closes a crossed connection.
  void file(Rank from, int channel, int stream, FileDescriptor connection);
  /// Called by the lower rank of a pair before it connects, so that two ranks that open the same connection
  /// at the same time end up with one: the peer's if that is here, which is returned; else from now on the
  /// peer's is refused.
  PrivateDescriptor open(Rank to, int channel, int stream);
  /// Empty while there is none that its rank still holds open.
  PrivateDescriptor take(Rank from, int channel, int stream);
  /// Connections filed so far: a cheap way to see that looking again is useless.
  [[nodiscard]] std::uint64_t filed() const { return filed_.load(std::memory_order_acquire); }
  /// Readable (poll) when a connection was filed since the last `clear_event`.
  [[nodiscard]] int event() const { return event_.get(); }
  void clear_event() const;

 private:
  using Place = std::tuple<Rank, int, int>;

  std::mutex mutex_;
  std::map<Place, PrivateDescriptor> connections_;
  std::set<Place> opened_here_;
  std::atomic<std::uint64_t> filed_{0};
  PrivateDescriptor event_;
};

}  // namespace tutti::transport::tcp
