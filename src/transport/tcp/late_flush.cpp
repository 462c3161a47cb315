#include "transport/tcp/late_flush.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <exception>

#include "base/timespec.hpp"
#include "transport/tcp/tcp_sender.hpp"

namespace tutti::transport::tcp {

// Only the first of those who hold sets the time: others would put it off for ever.
bool LateFlush::hold(TcpSender& sender) noexcept {
  if (stopped_) return false;
  try {
    holders_.push_back(&sender);
    if (holders_.size() > 1 || start()) return true;
  } catch (const std::exception&) {
    thread_.reset();
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
  if (!thread_) thread_.emplace().start([this] { round(); });
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

void LateFlush::round() {
  polled_.assign({thread_->stop(), {timer_.get(), POLLIN, 0}});
  polled_.insert(polled_.end(), blocked_.begin(), blocked_.end());
  ::poll(polled_.data(), polled_.size(), -1);
  std::uint64_t expirations = 0;
  static_cast<void>(::read(timer_.get(), &expirations, sizeof expirations));
  blocked_.clear();
  const auto locked = lock();
  for (TcpSender* sender : holders_) sender->flush_held(blocked_);
  std::erase_if(holders_, [](const TcpSender* sender) { return !sender->holds(); });
}

}  // namespace tutti::transport::tcp
