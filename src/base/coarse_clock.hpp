/// \file
/// The time, some milliseconds old, for the price of a few loads.
#pragma once

#include <ctime>

#include "base/deadline.hpp"

namespace tutti {

/// Of the last tick of the kernel's timer (CLOCK_MONOTONIC_COARSE, 1 to 10 ms apart), comparable with Clock.
/// For paths that want to do something now and then: where the processor's counter is no good clock, as in
/// virtual machines, reading the exact time is a system call, and a device's register.
inline Clock::time_point coarse_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return Clock::time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace tutti
