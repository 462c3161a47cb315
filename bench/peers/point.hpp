/// \file
/// One operation of one size on one rank: making its calls, timing them, checking what comes out.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>

#include "backend.hpp"
#include "operation.hpp"

namespace bench {

enum class Inputs { unchanged, rewritten };

/// One operation of one size on one rank: its buffers hold data whose result is known.
class Point {
 public:
  Point(Backend& backend, const Call& call, float* in, float* out)
      : backend_(backend), call_(call), in_(in), out_(out), run_(backend.prepare(call, in, out)) {}

  [[nodiscard]] const Call& call() const { return call_; }
  [[nodiscard]] bool supported() const { return run_ != nullptr; }

  /// New data each call, no barrier between: finds results that are stale, and inputs read after the call
  /// returned.
  bool check() {
    const int calls = call_.bytes() <= (1U << 14U) ? 20 : call_.bytes() <= (1U << 20U) ? 5 : 2;
    bool right = true;
    for (int i = 0; i < calls; ++i) {
      rewrite();
      run_();
      right = is_right(call_, out_, generation_) && right;
    }
    return all(right);
  }
  /// Whether the last call's result is right, on all ranks.
  bool last_was_right() { return all(is_right(call_, out_, generation_)); }

  /// Seconds of one call, of the slowest rank, whose program has just written its input and its output.
  double single() {
    rewrite();
    std::fill_n(out_, call_.total, -1.0F);
    backend_.barrier();
    return backend_.max(timed(1, run_));
  }
  /// Seconds a call, of the slowest rank.
  double batch(int calls, Inputs inputs) {
    backend_.barrier();
    const double seconds =
        inputs == Inputs::unchanged ? timed(calls, [this] { run_(); }) : rewriting_batch(calls);
    return backend_.max(seconds) / calls;
  }

 private:
  using Clock = std::chrono::steady_clock;

  template <class Body>
  static double timed(int calls, Body body) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) body();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  /// Only the calls count, not the rewriting. From 64 KiB the clock is read around each call; below, where
  /// reading it would weigh, the cost of rewriting alone is measured and subtracted.
  double rewriting_batch(int calls) {
    if (call_.bytes() < (1U << 16U)) {
      const double both = timed(calls, [this] { rewrite(), run_(); });
      const std::uint32_t last = generation_;
      rewriting_ = std::min(rewriting_, timed(calls, [this] { rewrite(); }) / calls);
      generation_ = last;  // `out` is from then
      return both - rewriting_ * calls;
    }
    double sum = 0;
    for (int i = 0; i < calls; ++i) {
      rewrite();
      sum += timed(1, run_);
    }
    return sum;
  }
  void rewrite() { fill(call_, in_, ++generation_); }
  bool all(bool right) { return backend_.max(right ? 0 : 1) == 0; }

  Backend& backend_;
  Call call_;
  float *in_, *out_;
  std::function<void()> run_;
  std::uint32_t generation_ = 0;
  double rewriting_ = 1e9;  ///< seconds that rewriting the input takes, undisturbed: the fastest seen
};

}  // namespace bench
