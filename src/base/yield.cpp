#include "base/yield.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/about_now.hpp"

namespace tutti {

namespace {

using namespace std::chrono_literals;

constexpr Clock::duration shortest = 2ms, longest = 30ms;
constexpr int enough = 8;  // cheap yields, and other programs are gone

struct Sleeping {
  Clock::duration during = shortest;
  Clock::time_point until;
  int cheap = enough;  ///< yields since then
};
thread_local Sleeping sleeping;
thread_local Clock::time_point at_work_since;

}  // namespace

Clock::duration take_work(Clock::time_point now) {
  const auto since = std::exchange(at_work_since, now);
  // What is about now may be before what was.
  return since == Clock::time_point{} ? Clock::duration::zero()
                                      : std::max(now - since, Clock::duration::zero());
}

std::optional<Clock::duration> yield_processor(Clock::time_point now) {
  if (now < sleeping.until) return std::nullopt;
  ::sched_yield();
  at_work_since = about_now();
  const auto away = at_work_since - now;
  if (away < dear_yield) ++sleeping.cheap;
  return away;
}

void avoid_yields(Clock::time_point now) {
  sleeping.during = sleeping.cheap >= enough ? shortest : std::min(2 * sleeping.during, longest);
  sleeping.until = now + sleeping.during;
  sleeping.cheap = 0;
}

void try_yields_again() { sleeping = {}; }

}  // namespace tutti
