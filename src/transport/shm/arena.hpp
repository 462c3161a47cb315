/// \file
/// The shared memory of one communicator on one host: a memfd that its ranks map, passed over a Unix socket.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/file_descriptor.hpp"
#include "transport/shm/keyed_socket.hpp"
#include "transport/shm/layout.hpp"

namespace tutti::transport::shm {

/// One mapping a process, shared by its ranks.
class Arena {
 public:
  /// New and zeroed. Throws Error(system).
  static std::shared_ptr<Arena> create(int ranks);
  /// Maps the memory behind a descriptor received from its creator.
  Arena(FileDescriptor memory, int ranks);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] int fd() const { return memory_.get(); }
  [[nodiscard]] std::byte* at(std::size_t offset) const { return base_ + offset; }
  [[nodiscard]] Header& header() const { return *reinterpret_cast<Header*>(base_); }
  [[nodiscard]] Control& control(Rank rank) const {
    return *reinterpret_cast<Control*>(
        at(layout_.control_offset + static_cast<std::size_t>(rank) * Layout::control_bytes));
  }

 private:
  Layout layout_;
  FileDescriptor memory_;
  std::byte* base_ = nullptr;
};

/// The ranks of each process, in the group's numbering.
using Processes = std::map<pid_t, std::vector<Rank>>;

/// Hands `arena` to processes that call the listener, until all of `waiting` have it. `check` is asked now
/// and then while nobody comes; it may throw. Throws Error(timeout), which names the ranks that did not come,
/// Error(unsupported) where a process that comes is none of these.
void serve_arena(Listener& listener, const Arena& arena, Processes waiting, std::chrono::milliseconds timeout,
                 const std::function<void()>& check);

/// The arena of `key` for so many ranks: the mapping that this process already has, or one received from its
/// server, `holder`, which errors name. The server's own process publishes what it created. Thread safe.
std::shared_ptr<Arena> attach_arena(const Key& key, int ranks, Rank holder, std::chrono::milliseconds timeout,
                                    const std::function<void()>& check);
void publish_arena(const Key& key, const std::shared_ptr<Arena>& arena);
/// To be called where this process has its holder's number. Throws Error(unsupported) where the arena has not
/// been published here, so that this is another process; or what `check` throws, which is asked then.
void require_arena(const Key& key, Rank holder, const std::function<void()>& check);

}  // namespace tutti::transport::shm
