/// \file
/// How fast the cores of all ranks are at the moment. A virtual core may be one of two hardware threads of a
/// core whose other one runs somebody else's program: for some milliseconds or minutes all that computes then
/// takes up to twice as long, which nothing else tells: the hypervisor has not stolen any time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "backend.hpp"

namespace bench {

/// Nanoseconds of a step that fills the units of a core that add: the fastest of some short series, since a
/// core's time may be shared with other ranks, too.
inline double step_nanoseconds() {
  constexpr std::uint64_t steps = 8000;
  double best = std::numeric_limits<double>::infinity();
  for (int series = 0; series < 4; ++series) {
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0;
    for (std::uint64_t i = 0; i < steps; ++i) {
      a += i, b ^= i, c += i, d ^= i, e += i, f ^= i;
      // Each sum is made, in each step: no compiler knows what it is.
      asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    }
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count() / steps);
  }
  return best;
}

struct Batch {
  double seconds;  ///< a call
  double step;     ///< nanoseconds of a step of the slowest core, before or after, whichever was slower
};

/// The slowest core of all ranks, compared with the best that it has been. Asking is collective, and all
/// ranks learn the same.
class CoreSpeed {
 public:
  explicit CoreSpeed(Backend& backend) : backend_(backend) {}

  /// Nanoseconds of a step of the slowest core.
  double step() {
    const double slowest = backend_.max(step_nanoseconds());
    least_ = std::min(least_, slowest);
    return slowest;
  }
  /// How many of `batches` ran while no core was slower than it can be.
  [[nodiscard]] std::size_t undisturbed(const std::vector<Batch>& batches) const {
    return static_cast<std::size_t>(std::count_if(batches.begin(), batches.end(),
                                                  [&](const Batch& b) { return b.step <= limit * least_; }));
  }
  /// The `undisturbed` ones, and those that were disturbed least where these are fewer than `fewest`.
  [[nodiscard]] std::vector<Batch> that_count(std::vector<Batch> batches, std::size_t fewest) const {
    std::sort(batches.begin(), batches.end(), [](const Batch& x, const Batch& y) { return x.step < y.step; });
    batches.resize(std::min(batches.size(), std::max(fewest, undisturbed(batches))));
    return batches;
  }

 private:
  static constexpr double limit = 1.15;

  Backend& backend_;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace bench
