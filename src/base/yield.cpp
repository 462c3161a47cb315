#include "base/yield.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace tutti {

namespace {

using namespace std::chrono_literals;

constexpr auto dear = 1ms;  // ranks that wait return the processor within microseconds
constexpr Clock::duration shortest = 2ms, longest = 100ms;
constexpr int soon = 4;  // times the last while

struct Sleeping {
  Clock::duration during = shortest;
  Clock::time_point until;
};
thread_local Sleeping sleeping;

}  // namespace

bool yield_processor(Clock::time_point now) {
  if (now < sleeping.until) return false;
  ::sched_yield();
  const auto after = Clock::now();
  if (after - now < dear) return true;
  const bool again = now < sleeping.until + soon * sleeping.during;
  sleeping.during = again ? std::min(2 * sleeping.during, longest) : shortest;
  sleeping.until = after + sleeping.during;
  return true;
}

}  // namespace tutti
