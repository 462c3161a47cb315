/// \file
/// Measuring while cores stay where they are.
#pragma once

#include <algorithm>
#include <utility>

namespace bench {

/// What `measure` gives, and how far apart the cores were: `round_trip` is asked before and after. Where the
/// two differ by more than a factor of two, cores moved on the way, and the figures are of no place: measured
/// again, `tries` times in all; then the longer one is told.
template <class Measure, class RoundTrip>
auto measure_in_place(Measure measure, RoundTrip round_trip, int tries = 4) {
  double before = round_trip();
  for (int tried = 1;; ++tried) {
    const auto figures = measure();
    const double after = round_trip();
    const double farther = std::max(before, after);
    if (farther <= 2 * std::min(before, after) || tried == tries) return std::pair(figures, farther);
    before = after;
  }
}

}  // namespace bench
