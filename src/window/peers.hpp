/// \file
/// The ranks of a window as one rank reaches them: made collectively, once.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "base/fork_guard.hpp"
#include "transport/remote_memory.hpp"
#include "transport/tcp/tcp_memory.hpp"
#include "transport/tcp/window_server.hpp"
#include "window/counters.hpp"
#include "window/setting.hpp"

namespace tutti::detail {

/// A transfer that was started with a deadline.
struct Timed {
  std::uint64_t number;  ///< of its last operation
  Deadline deadline;
  std::string what;
};

struct WindowPeer {
  std::size_t bytes = 0;
  std::size_t misalignment = 0;  ///< of the beginning of its memory, modulo 8
  /// The server of the rank's window: for atomics that `memory` cannot do, and to connect; or nullptr.
  std::unique_ptr<transport::tcp::TcpMemory> owner;
  std::unique_ptr<transport::RemoteMemory> memory;
  bool by_access = false;   ///< `memory` is of WindowPeers::access
  std::deque<Timed> timed;  ///< those that may be under way, the oldest first
  std::unique_ptr<std::uint64_t> before = std::make_unique<std::uint64_t>();  ///< what an atomic returns
  bool busy = false;                                                          ///< in the list of busy targets
  std::optional<Error> failure;                                               ///< as its cause said it
  bool out_of_memory = false;  ///< this rank was, amid a use: kept likewise, in what takes no memory
  /// Those that are known to be done.
  void forget_timed() {
    const std::uint64_t done = memory->known_done();
    while (!timed.empty() && timed.front().number <= done) timed.pop_front();
  }
};

/// Exposes this rank's memory, learns of the others', and chooses the way to each. Peers are destroyed before
/// the server; both before the memory.
struct WindowPeers {
  /// `setting` and `counters` must stay.
  WindowPeers(const WindowSetting& setting, Counters& counters);
  // The server's thread changes both.
  std::unique_ptr<transport::RemoteAccess, DeleteUnlessForked> access;  ///< of `setting.network`, or nullptr
  std::unique_ptr<transport::tcp::WindowServer, DeleteUnlessForked> server;  ///< where some peer needs it
  std::vector<WindowPeer> all;

 private:
  /// Lets peers reach this rank's memory. Where they need its server they connect to what it returns.
  std::shared_ptr<transport::tcp::TcpListener> open(const WindowSetting& setting, Counters& counters);
};

}  // namespace tutti::detail
