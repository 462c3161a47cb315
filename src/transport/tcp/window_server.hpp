/// \file
/// Serves one rank's window memory to peers that reach it by TCP, and atomics to those that can reach only
/// the bytes.
#pragma once

#include <poll.h>

#include <list>
#include <memory>
#include <vector>

#include "base/serving_thread.hpp"
#include "transport/tcp/inbox.hpp"
#include "transport/tcp/served_memory.hpp"

namespace tutti::transport::tcp {

/// One thread a window, asleep in poll: so the memory is reachable while its rank computes. It is started
/// only where some peer needs it.
class WindowServer {
 public:
  /// Takes connections from `inbox`. `world`: world ranks, by rank.
  WindowServer(Served served, Rank rank, std::vector<Rank> world, std::shared_ptr<Inbox> inbox);
  WindowServer(const WindowServer&) = delete;
  WindowServer& operator=(const WindowServer&) = delete;

 private:
  void serve();
  void accept();
  static bool advance(ServedConnection& one);

  Served served_;
  Rank rank_;
  std::vector<Rank> world_;
  std::shared_ptr<Inbox> inbox_;
  std::list<ServedConnection> connections_;
  std::vector<pollfd> polled_;  ///< kept for its capacity
  ServingThread thread_;
};

}  // namespace tutti::transport::tcp
