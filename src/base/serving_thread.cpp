#include "base/serving_thread.hpp"

#include <sys/eventfd.h>

#include "base/system_error.hpp"

namespace tutti {

ServingThread::ServingThread() : stop_(FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  if (!stop_) throw_errno("eventfd");
}

ServingThread::~ServingThread() {
  if (fork_generation() != generation_) {
    static_cast<void>(thread_.release());  // neither to be joined nor detached here
    return;
  }
  if (!thread_) return;
  stopping_ = true;
  ::eventfd_write(stop_.get(), 1);
  thread_->join();
}

void ServingThread::pause() const {
  constexpr int pause_ms = 100;
  pollfd one = stop();
  ::poll(&one, 1, pause_ms);
}

}  // namespace tutti
