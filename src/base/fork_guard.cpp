#include "base/fork_guard.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <vector>

#include "base/system_error.hpp"

namespace tutti {
namespace {

/// Never destroyed: descriptors may be closed by destructors of static objects.
struct Registry {
  std::mutex mutex;
  std::vector<int> descriptors;
  int null_device = -1;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

// Between fork and the end of the handlers the registry must not be half changed in the child's copy.
void before_fork() { registry().mutex.lock(); }
void after_fork_in_parent() { registry().mutex.unlock(); }

// dup3 keeps the numbers taken: objects of the parent that were copied own them still, and nothing else gets
// them.
void after_fork_in_child() {
  auto& r = registry();
  for (int descriptor : r.descriptors) ::dup3(r.null_device, descriptor, O_CLOEXEC);
  r.descriptors.clear();
  detail::fork_count.fetch_add(1, std::memory_order_relaxed);
  r.mutex.unlock();
}

}  // namespace

void install_fork_guard() {
  static const bool installed = [] {
    auto& r = registry();
    r.null_device = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (r.null_device < 0) throw_errno("opening /dev/null");
    if (int code = ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); code != 0)
      throw_errno("pthread_atfork", code);
    return true;
  }();
  static_cast<void>(installed);
}

PrivateDescriptor::PrivateDescriptor(FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {
  if (!descriptor_) return;
  install_fork_guard();
  auto& r = registry();
  const std::lock_guard lock(r.mutex);
  r.descriptors.push_back(descriptor_.get());
}

void PrivateDescriptor::reset() noexcept {
  if (!descriptor_) return;
  auto& r = registry();
  // Closed under it: the number must not be reused while it is still listed.
  const std::lock_guard lock(r.mutex);
  std::erase(r.descriptors, descriptor_.get());
  descriptor_.reset();
}

FileDescriptor PrivateDescriptor::release() noexcept {
  auto& r = registry();
  const std::lock_guard lock(r.mutex);
  std::erase(r.descriptors, descriptor_.get());
  return std::move(descriptor_);
}

}  // namespace tutti
