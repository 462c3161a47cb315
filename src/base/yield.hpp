/// \file
/// Giving the processor to another rank, as long as that is whom it goes to.
#pragma once

#include <chrono>
#include <optional>

#include "base/deadline.hpp"

namespace tutti {

/// Ranks that wait return the processor within microseconds. A yield that takes longer went to somebody who
/// works: other ranks (`ShmTransport::ranks_used`), or another program.
inline constexpr std::chrono::milliseconds dear_yield{1};

/// How long this thread was at work until `now` since it was asked last, or came back from a yield. 0 the
/// first time.
Clock::duration take_work(Clock::time_point now);

/// Yields the processor once, and says how long it was away. Nothing when whoever waits had better sleep.
std::optional<Clock::duration> yield_processor(Clock::time_point now);

/// The last yield went to another program. Such are given the processor for milliseconds each time, whereas
/// who sleeps is preferred when it wakes. Keeps this thread from yielding: for a short while, and longer each
/// time while nearly all yields are like that.
void avoid_yields(Clock::time_point now);

/// Whoever took the processor so far has ended: this thread yields again, as if it had never met anybody.
void try_yields_again();

}  // namespace tutti
