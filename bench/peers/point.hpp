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
  /// Ranks whose numbers leave the same rest by `cores` share a core.
  Point(Backend& backend, const Call& call, float* in, float* out, int cores)
      : backend_(backend),
        call_(call),
        in_(in),
        out_(out),
        cores_(cores),
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
  /// Whether the last call's result is right, and that of one more, on all ranks. Where inputs stay the same
  /// a call that wrote nothing leaves what an earlier one wrote, which is right: so the output holds
  /// something else before this call. Its inputs are those of the call before, since libraries may do
  /// otherwise once they change. A broadcast's buffer is `out` on all ranks but the root, which receives
  /// nothing: so it is checked, too.
  bool still_right() {
    const bool last = last_was_right();
    spoil_output();
    run_();
    return last_was_right() && last;
  }

  /// Seconds of one call, of the slowest rank, whose program has just written its input and its output.
  ///
  /// Who comes early to a barrier may sleep there, and waking up is not of the call: so there are two before.
  /// Nor is what `max` needs when it is new, which ranks that are done would do while others of their core
  /// are not: so there is one behind.
  double single() {
    rewrite();
    spoil_output();
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
    /// Seconds that `now` takes, which is a system call.
    static double look() {
      static const double shortest = [] {
        double least = 1;
        for (int i = 0; i < 1000; ++i) least = std::min(least, timed<ProcessorTime>(0, [] {}));
        return least;
      }();
      return shortest;
    }
  };

  template <class Time, class Body>
  static double timed(int calls, Body body) {
    const auto start = Time::now();
    for (int i = 0; i < calls; ++i) body();
    return std::chrono::duration<double>(Time::now() - start).count();
  }
  /// Only the calls count, not the rewriting; nor that of the ranks that share this one's core, which passes
  /// while others wait in the call. From 64 KiB each rewriting is measured. Below, where reading a clock
  /// would weigh, what rewriting alone takes is subtracted.
  double rewriting_batch(int calls) {
    const bool shared = backend_.size() > cores_;
    double rewriting = 0, both = 0;
    if (call_.bytes() < (1U << 16U)) {
      both = timed<Clock>(calls, [this] { rewrite(), run_(); });
      const std::uint32_t last = generation_;
      rewriting_ = std::min(rewriting_, timed<ProcessorTime>(calls, [this] { rewrite(); }) / calls);
      generation_ = last;  // `out` is from then
      fill(call_, in_, generation_);
      rewriting = rewriting_ * calls;
    } else if (!shared) {
      both = timed<Clock>(calls, [&] { rewriting += timed<Clock>(1, [this] { rewrite(); }), run_(); });
    } else {
      both =
          timed<Clock>(calls, [&] { rewriting += timed<ProcessorTime>(1, [this] { rewrite(); }), run_(); });
      rewriting += calls * ProcessorTime::look();  // of two looks one is in what they measure
    }
    if (shared) rewriting = of_this_core(rewriting);
    return std::max(both - rewriting, both / 100);  // less is below what this can tell
  }
  /// The sum over the ranks that share this one's core.
  double of_this_core(double mine) {
    double sum = 0;
    for (int r = 0; r < backend_.size(); ++r) {
      const double theirs = backend_.max(r == backend_.rank() ? mine : 0);
      if (r % cores_ == backend_.rank() % cores_) sum += theirs;
    }
    return sum;
  }
  void rewrite() { fill(call_, in_, ++generation_); }
  void spoil_output() { std::fill_n(out_, call_.total, -1.0F); }  // which no result contains
  bool all(bool right) { return backend_.max(right ? 0 : 1) == 0; }

  Backend& backend_;
  Call call_;
  float *in_, *out_;
  int cores_;
  std::function<void()> run_;
  std::uint32_t generation_ = 0;
  double rewriting_ = 1e9;  ///< seconds of this core that rewriting the input takes: the fastest seen
};

}  // namespace bench
