/// \file
/// Sends what senders hold back, should their rank turn to other work.
#pragma once

#include <poll.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fork_guard.hpp"
#include "base/serving_thread.hpp"

namespace tutti::transport::tcp {

class TcpSender;

struct HoldTimes {
  std::chrono::microseconds recent{25};  ///< who sent within it may send again soon
  std::chrono::microseconds most{100};   ///< how long a message waits for more
};

/// One a transport. Its thread begins with the first message held back, and sleeps while ranks send by
/// themselves: who holds back puts the time forward.
class LateFlush {
 public:
  LateFlush() = default;
  explicit LateFlush(const HoldTimes& times) : times_(times) {}

  [[nodiscard]] const HoldTimes& times() const { return times_; }
  /// Senders' queues are changed under this lock. Thread safe.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  /// `sender` begins to hold messages back: they go `most` from now at the latest. False: nobody can see to
  /// that, and nothing may be held. Under the lock.
  bool hold(TcpSender& sender) noexcept;
  /// `sender` holds nothing back any more. Under the lock.
  void release(TcpSender& sender) noexcept;
  /// Ends the thread; afterwards nothing may be held. Not under the lock.
  void stop() noexcept;

 private:
  bool start();
  void round(const pollfd& end);

  const HoldTimes times_{};
  PrivateDescriptor timer_;
  std::mutex mutex_;
  std::vector<TcpSender*> holders_;
  bool timed_ = false;  ///< the timer runs for the holders, but those that the kernel keeps waiting
  bool stopped_ = false;
  std::vector<pollfd> blocked_, polled_;  ///< of the thread alone, kept for their capacity
  std::optional<ServingThread> thread_;
};

}  // namespace tutti::transport::tcp
