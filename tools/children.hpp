/// \file
/// Ranks that are children of a tool's process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/types.hpp>

#include "base/file_descriptor.hpp"

namespace tutti {

/// Starts them and waits for them. Used by one thread.
class Children {
 public:
  /// `tool`: in whose name ends are reported.
  explicit Children(std::string tool) : tool_(std::move(tool)) {}

  /// Forks, before anything has made threads. True in the child, which dies with its parent; what is left to
  /// do there is to be `rank`. Throws Error(system), in a child Error(peer_lost) when its parent has died.
  bool begin(Rank rank);
  /// The worst exit status of all once they have ended, EXIT_FAILURE of who was killed. That is reported on
  /// stderr. After the first failure, which may have happened (`failed`), the others, who learn of it from
  /// the library, get `grace` to end, and again while a reader of what they print pauses; those that do not
  /// are reported and killed.
  int wait(std::chrono::milliseconds grace, bool failed = false);

 private:
  struct Child {
    Rank rank;
    pid_t pid;
    FileDescriptor pidfd;
  };
  void kill_all() const;
  /// Nothing while it runs.
  [[nodiscard]] std::optional<int> status_of(const Child& child) const;
  std::string tool_;
  std::vector<Child> children_;
};

}  // namespace tutti
