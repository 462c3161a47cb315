#include "transport/tcp/late_flush.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <exception>

#include "base/timespec.hpp"
#include "transport/tcp/purpose.hpp"
#include "transport/tcp/tcp_sender.hpp"

namespace tutti::transport::tcp {

// Only the first of those who hold sets the time: others would put it off for ever. Those whom the kernel
// keeps waiting are not among them: for them no time is set any more.
bool LateFlush::hold(TcpSender& sender) noexcept {
  if (stopped_) return false;
  try {
    holders_.push_back(&sender);
    if ((timed_ && holders_.size() > 1) || start()) return true;
  } catch (const std::exception&) {
    // The thread, if there is one, stays: others may count on it, and it may be about to take the lock.
  }
  release(sender);
  stopped_ = true;
  return false;
}

bool LateFlush::start() {
  if (!timer_)
    timer_ = PrivateDescriptor(FileDescriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)));
  const itimerspec once{{}, timespec_of(times_.most)};
  if (!timer_ || ::timerfd_settime(timer_.get(), 0, &once, nullptr) != 0) return false;
  timed_ = true;
  if (thread_) return true;
  ServingThread& thread = thread_.emplace();
  // It must not look at `thread_`, which `stop` empties before the thread has ended.
  thread.start([this, end = thread.stop()] { round(end); });
  return true;
}

void LateFlush::release(TcpSender& sender) noexcept { std::erase(holders_, &sender); }

void LateFlush::stop() noexcept {
  {
    const auto locked = lock();
    stopped_ = true;
  }
  thread_.reset();
}

void LateFlush::round(const pollfd& end) {
  polled_.assign({end, {timer_.get(), POLLIN, 0}});
  polled_.insert(polled_.end(), blocked_.begin(), blocked_.end());
  ::poll(polled_.data(), polled_.size(), -1);
  const auto locked = lock();
  // Without memory for it the next round begins where this one did.
  blocked_.reserve(holders_.size() * static_cast<std::size_t>(max_streams));
  std::uint64_t expirations = 0;
  static_cast<void>(::read(timer_.get(), &expirations, sizeof expirations));
  blocked_.clear();
  timed_ = false;  // all go now, or when the kernel takes more
  for (TcpSender* sender : holders_) sender->flush_held(blocked_);
  std::erase_if(holders_, [](const TcpSender* sender) { return !sender->holds(); });
}

}  // namespace tutti::transport::tcp
