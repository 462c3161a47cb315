/// \file
/// Durations of a fraction of a microsecond.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include "base/deadline.hpp"
#endif

namespace tutti {

/// Counts up, at a pace of its own, on one processor.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
#endif
}

/// The same, but no sooner than all others can see what this thread has stored; where the processor has no
/// such order, at once.
inline std::uint64_t ticks_when_stored() noexcept {
#if defined(__x86_64__)
  _mm_mfence();
  _mm_lfence();
#endif
  return ticks();
}

}  // namespace tutti
