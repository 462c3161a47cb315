/// \file
/// Where connections wait until they have proved that they belong: strangers get no further and hold up
/// nobody.
#pragma once

#include <poll.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "base/fork_guard.hpp"
#include "bootstrap/authenticate.hpp"

namespace tutti::bootstrap {

/// Non-blocking; used by one thread.
class Lobby {
 public:
  using Enter = std::function<void(FileDescriptor, const Hello&)>;
  /// Beyond `most` connections under way the oldest is dropped; a member that this hits tries again.
  Lobby(FileDescriptor listener, const Secret& secret, std::size_t most);

  /// Appends what to wait for; `advance` wants the same entries back, with their results.
  void add_to(std::vector<pollfd>& waiting) const;
  /// Milliseconds until `advance` has something to do even if nothing arrives; -1: never.
  [[nodiscard]] int poll_ms() const;
  /// Accepts, moves the handshakes on, and hands over the connections that passed.
  void advance(std::span<const pollfd> results, const Enter& enter);
  /// Stops listening and drops everybody.
  void close();

  [[nodiscard]] int refused() const { return refused_; }     ///< connections with another secret, so far
  [[nodiscard]] bool full() const { return full_; }          ///< this process cannot open another connection
  [[nodiscard]] bool was_full() const { return was_full_; }  ///< so far, if only for moments

 private:
  /// Whether the arrival is done with, one way or the other.
  bool advance_one(Accepting& arrival, const Enter& enter);
  void accept_some(const Enter& enter);

  PrivateDescriptor listener_;
  Secret secret_;
  std::size_t most_;
  std::deque<Accepting> arrivals_;  ///< oldest first
  bool full_ = false;               ///< out of descriptors: do not look at the listener for a moment
  bool was_full_ = false;
  int refused_ = 0;
};

}  // namespace tutti::bootstrap
