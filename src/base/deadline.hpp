/// \file
/// A point in time by which something must have happened.
#pragma once

#include <algorithm>
#include <chrono>

namespace tutti {

using Clock = std::chrono::steady_clock;

/// What a caller may mean by "for ever", say milliseconds::max(), in numbers that the clock can add. Never
/// less than a millisecond ago.
template <class Rep, class Period>
constexpr Clock::duration bounded(std::chrono::duration<Rep, Period> time) {
  constexpr std::chrono::hours for_ever(24 * 365 * 100);
  constexpr std::chrono::milliseconds past(-1);
  if (time > for_ever) return for_ever;
  if (time < past) return past;
  return std::chrono::duration_cast<Clock::duration>(time);
}

/// Of the time in which a rank does not look, since it computes or is stopped, no more counts as waiting:
/// others may be waiting for it.
inline constexpr Clock::duration longest_unseen = std::chrono::milliseconds(100);

class Deadline {
 public:
  template <class Rep, class Period>
  explicit Deadline(std::chrono::duration<Rep, Period> from_now) : end_(Clock::now() + bounded(from_now)) {}
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
