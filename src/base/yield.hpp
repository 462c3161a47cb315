/// \file
/// Giving the processor to another rank, as long as that is whom it goes to.
#pragma once

#include "base/deadline.hpp"

namespace tutti {

/// Yields the processor once and returns true; returns false when whoever waits had better sleep. Other
/// programs are given the processor for milliseconds by each yield, whereas who sleeps is preferred when it
/// wakes. So a yield that took long keeps this thread from the next ones: for a short while, and ever longer
/// while it goes on.
bool yield_processor(Clock::time_point now);

}  // namespace tutti
