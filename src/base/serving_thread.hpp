/// \file
/// A thread that serves others, and sleeps in poll meanwhile.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "base/fork_guard.hpp"
#include "base/quiet_thread.hpp"

namespace tutti {

/// Runs in rounds until it is destroyed. In a child made by fork there is no such thread, and the destructor
/// does nothing.
class ServingThread {
 public:
  /// Throws Error(system).
  ServingThread();
  ~ServingThread();
  ServingThread(const ServingThread&) = delete;
  ServingThread& operator=(const ServingThread&) = delete;

  /// Call once. `round` waits for work and for `stop`, and does the work. What it throws, out of memory, ends
  /// that round only; the next one begins after a pause. Throws Error(system).
  template <class Round>
  void start(Round round) {
    thread_ = quiet_thread([this, round = std::move(round)]() mutable {
      while (!stopping_) {
        try {
          round();
        } catch (const std::exception&) {
          pause();
        }
      }
    });
  }
  /// What to poll for: readable when the thread is to end.
  [[nodiscard]] pollfd stop() const { return {stop_.get(), POLLIN, 0}; }

 private:
  void pause() const;

  PrivateDescriptor stop_;
  std::atomic<bool> stopping_{false};
  std::uint64_t generation_ = fork_generation();
  std::unique_ptr<std::thread> thread_;
};

}  // namespace tutti
