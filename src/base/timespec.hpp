/// \file
/// Durations for system calls.
#pragma once

#include <chrono>
#include <ctime>

namespace tutti {

/// `duration`: not negative.
constexpr timespec timespec_of(std::chrono::microseconds duration) {
  return {static_cast<time_t>(duration.count() / 1'000'000),
          static_cast<long>(duration.count() % 1'000'000) * 1000};
}

}  // namespace tutti
