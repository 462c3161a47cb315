/// \file
/// One operation of one size on one rank: making its calls, timing them, checking what comes out.
#pragma once

#include <time.h>

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
  /// `sharing`: ranks on this one's core, itself included.
  Point(Backend& backend, const Call& call, float* in, float* out, int sharing = 1)
      : backend_(backend),
        call_(call),
        in_(in),
        out_(out),
        sharing_(sharing),
        run_(backend.prepare(call, in, out)) {}

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
  ///
  /// Who comes early to a barrier may sleep there, and waking up is not of the call: so there are two before.
  /// Nor is what `max` needs when it is new, which ranks that are done would do while others of their core
  /// are not: so there is one behind.
  double single() {
    rewrite();
    std::fill_n(out_, call_.total, -1.0F);
    backend_.barrier();
    backend_.barrier();
    const double seconds = timed<Clock>(1, run_);
    backend_.barrier();
    return backend_.max(seconds);
  }
  /// Seconds a call, of the slowest rank.
  double batch(int calls, Inputs inputs) {
    backend_.barrier();
    const double seconds =
        inputs == Inputs::unchanged ? timed<Clock>(calls, [this] { run_(); }) : rewriting_batch(calls);
    return backend_.max(seconds) / calls;
  }

 private:
  using Clock = std::chrono::steady_clock;
  /// What this thread has had of its core: without the turns of others.
  struct ProcessorTime {
    static std::chrono::nanoseconds now() {
      timespec time{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    }
  };

  template <class Time, class Body>
  static double timed(int calls, Body body) {
    const auto start = Time::now();
    for (int i = 0; i < calls; ++i) body();
    return std::chrono::duration<double>(Time::now() - start).count();
  }
  /// Only the calls count, not the rewriting. From 64 KiB the clock is read around each call. Below, where
  /// reading it would weigh, and where ranks share a core, which rewrite while others wait in the call, what
  /// rewriting alone takes is measured and subtracted.
  double rewriting_batch(int calls) {
    if (sharing_ > 1 || call_.bytes() < (1U << 16U)) {
      const double both = timed<Clock>(calls, [this] { rewrite(), run_(); });
      const std::uint32_t last = generation_;
      rewriting_ = std::min(rewriting_, timed<ProcessorTime>(calls, [this] { rewrite(); }) / calls);
      generation_ = last;  // `out` is from then
      return both - rewriting_ * calls * sharing_;
    }
    double sum = 0;
    for (int i = 0; i < calls; ++i) {
      rewrite();
      sum += timed<Clock>(1, run_);
    }
    return sum;
  }
  void rewrite() { fill(call_, in_, ++generation_); }
  bool all(bool right) { return backend_.max(right ? 0 : 1) == 0; }

  Backend& backend_;
  Call call_;
  float *in_, *out_;
  int sharing_;
  std::function<void()> run_;
  std::uint32_t generation_ = 0;
  double rewriting_ = 1e9;  ///< seconds of this core that rewriting the input takes: the fastest seen
};

}  // namespace bench
