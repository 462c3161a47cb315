/// \file
/// A point in time by which something must have happened.
#pragma once

#include <algorithm>
#include <chrono>

namespace tutti {

using Clock = std::chrono::steady_clock;

class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds from_now) : end_(Clock::now() + from_now) {}
  [[nodiscard]] bool passed() const { return Clock::now() >= end_; }
  /// Time left, never negative, rounded up to whole milliseconds: what poll(2) takes.
  [[nodiscard]] int poll_ms() const {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
  }
  [[nodiscard]] Clock::time_point end() const { return end_; }

 private:
  Clock::time_point end_;
};

}  // namespace tutti
