/// \file
/// What a child made by fork must not share with its parent: sockets whose closing tells others that a rank
/// died.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/file_descriptor.hpp"

namespace tutti {

namespace detail {
inline std::atomic<std::uint64_t> fork_count{0};
}  // namespace detail

/// Number of forks between the process that called `install_fork_guard` and this one. An object that
/// remembers its value knows by comparing whether it is a copy in a child.
inline std::uint64_t fork_generation() noexcept { return detail::fork_count.load(std::memory_order_relaxed); }

/// Makes `fork_generation` count from now on. Idempotent, thread safe. Throws Error(system) when out of
/// memory.
void install_fork_guard();

/// One T a process. A child made by fork has a new one, since in its copy of the parent's a lock may be held
/// for ever, by a thread that is not there. Never destroyed: threads and static objects may outlive any order
/// of destruction. Thread safe.
template <class T>
class PerProcess {
 public:
  /// Throws Error(system) when out of memory, the first time in a process.
  T& get() {
    Instance* now = instance_.load(std::memory_order_acquire);
    while (now == nullptr || now->generation != fork_generation()) {
      install_fork_guard();
      auto* const fresh = new Instance{fork_generation(), now, {}};
      if (instance_.compare_exchange_strong(now, fresh, std::memory_order_acq_rel)) return fresh->value;
      delete fresh;
    }
    return now->value;
  }

 private:
  struct Instance {
    std::uint64_t generation;
    Instance* of_parent;  ///< left as it is
    T value;
  };
  std::atomic<Instance*> instance_{nullptr};
};

/// Deletes what other threads change. In a child made by fork it does nothing: those threads are not there,
/// and may have been in the middle of it.
struct DeleteUnlessForked {
  std::uint64_t generation = fork_generation();
  template <class T>
  void operator()(T* object) const noexcept {
    if (generation == fork_generation()) delete object;
  }
};

/// Owner of a descriptor that exists only in the process that made it: in a child made by fork the number
/// leads to /dev/null, so that reads and writes there fail harmlessly and closing it is still right. (vfork
/// and posix_spawn run no handlers; CLOEXEC covers those.) A fork between the creation of the descriptor and
/// this constructor is not covered.
class PrivateDescriptor {
 public:
  PrivateDescriptor() = default;
  /// Throws Error(system); the descriptor is then closed.
  explicit PrivateDescriptor(FileDescriptor descriptor);
  PrivateDescriptor(PrivateDescriptor&&) noexcept = default;
  PrivateDescriptor& operator=(PrivateDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      descriptor_ = std::move(other.descriptor_);
    }
    return *this;
  }
  PrivateDescriptor(const PrivateDescriptor&) = delete;
  PrivateDescriptor& operator=(const PrivateDescriptor&) = delete;
  ~PrivateDescriptor() { reset(); }

  [[nodiscard]] int get() const { return descriptor_.get(); }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(descriptor_); }
  void reset() noexcept;
  /// Gives the descriptor away, unguarded.
  FileDescriptor release() noexcept;

 private:
  FileDescriptor descriptor_;
};

}  // namespace tutti
