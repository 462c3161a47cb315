#include "base/about_now.hpp"

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tutti {

#if defined(__x86_64__)

namespace {

// A tick and the time it was counted at.
struct Moment {
  std::uint64_t tick = 0;
  Clock::time_point time;
};

Moment this_moment() noexcept {
  constexpr std::uint64_t at_once = 20'000;  // ticks, some microseconds; else something came in between
  Moment moment;
  for (int tries = 0; tries < 3; ++tries) {
    moment = {__rdtsc(), Clock::now()};
    if (__rdtsc() - moment.tick < at_once) break;
  }
  return moment;
}

const Moment loaded = this_moment();

// A third of a millisecond to one.
constexpr std::uint64_t most_ticks = std::uint64_t{1} << 20;

constexpr double slowest = 10;  // nanoseconds a tick

struct Anchor {
  Moment moment;
  double nanoseconds_a_tick = 0;
};

}  // namespace

Clock::time_point about_now() noexcept {
  thread_local Anchor anchor;
  const std::uint64_t passed = __rdtsc() - anchor.moment.tick;
  // Also when ticks went back, as they may where a thread moves to another processor.
  if (passed > most_ticks) {
    anchor.moment = this_moment();
    const std::chrono::duration<double, std::nano> since = anchor.moment.time - loaded.time;
    // Ticks that were counted anew meanwhile, by a machine that slept say, tell nothing.
    anchor.nanoseconds_a_tick =
        std::min(since.count() / static_cast<double>(anchor.moment.tick - loaded.tick), slowest);
    return anchor.moment.time;
  }
  return anchor.moment.time + std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(passed) *
                                                                                 anchor.nanoseconds_a_tick));
}

#else

Clock::time_point about_now() noexcept { return Clock::now(); }

#endif

}  // namespace tutti
