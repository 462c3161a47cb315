/// \file
/// Unix sockets between processes of one host and user that know the same key.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <vector>

#include <tutti/types.hpp>

#include "base/file_descriptor.hpp"
#include "base/fork_guard.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::transport::shm {

/// What processes of one host know that are to share memory.
using Key = std::array<std::byte, 16>;

/// Listens at an abstract address that is made of the key without telling it.
class Listener {
 public:
  /// Throws Error(system).
  explicit Listener(const Key& key);
  /// The next caller that runs for this user and has told the key, however late; whoever says nothing, or
  /// something else, keeps nobody waiting. Nothing once the deadline has passed. Throws Error(system) when
  /// there is no room for another descriptor.
  FileDescriptor accept(const bootstrap::Limit& limit);

 private:
  /// False: there is room for no more.
  bool take_callers();
  /// The first of the callers that has told the key. Those that told anything else are dropped.
  FileDescriptor first_that_knows();
  Key key_;
  FileDescriptor listener_;
  std::vector<FileDescriptor> callers_;  ///< that have said nothing yet
};

/// Connects to `holder`, who listens, and says nothing yet. Waits only where others wait there already, as
/// many as may. Throws Error(system), Error(timeout), Error(unsupported) where it runs as another user.
FileDescriptor call(const Key& key, Rank holder, const bootstrap::Limit& limit);
/// Likewise, and tells the key.
FileDescriptor connect_to(const Key& key, Rank holder, const bootstrap::Limit& limit);
/// Of whoever is at the other end.
pid_t process_of(int connection);

/// Wakes one who sleeps in poll(2), as no futex does: by datagrams, so that nobody connects, waits or fails.
/// Its socket is made at first use; where there can be none, nobody is woken.
class Bell {
 public:
  explicit Bell(const Key& mine) : mine_(mine) {}
  /// Readable once somebody has rung for its key, or a stranger has; -1: never.
  int fd() noexcept;
  /// It was readable.
  void clear() const noexcept;
  /// Where nobody listens for `key`, that one has left.
  void ring(const Key& key) noexcept;

 private:
  Key mine_;
  PrivateDescriptor socket_;
};

}  // namespace tutti::transport::shm
