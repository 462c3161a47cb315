/// \file
/// The measurement, the same for every library. bench/README.md says why it is done this way.
///
/// A batch is k calls back to back; its time is that of the slowest rank, divided by k. A point's figures are
/// the median and the fastest of its batches. One JSON object a point and mode goes to rank 0's standard
/// output.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "memory.hpp"
#include "operation.hpp"
#include "options.hpp"
#include "round_trip.hpp"

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

struct Figures {
  double median, fastest;  ///< seconds
};

/// Batches of a twelfth of `seconds` each, at least three, until `seconds` are used.
inline Figures measure(Point& point, Inputs inputs, double seconds) {
  int calls = 1;
  double call = point.batch(calls, inputs);
  for (double spent = call; (call * calls < seconds / 24 || calls < 8) && spent < seconds;
       spent += call * calls)
    call = point.batch(calls *= 2, inputs);
  calls = std::clamp(static_cast<int>(seconds / 12 / std::max(call, 1e-9)), 1, 1 << 22);
  std::vector<double> batches;
  for (double spent = 0; spent < seconds || batches.size() < 3; spent += batches.back() * calls)
    batches.push_back(point.batch(calls, inputs));
  std::sort(batches.begin(), batches.end());
  return {batches[batches.size() / 2], batches.front()};
}

inline void print(const Options& options, const Call& call, Inputs inputs, const Figures& figures, bool right,
                  std::optional<double> round_trip) {
  const std::string rtt = round_trip ? std::to_string(*round_trip) : "null";
  std::printf(
      R"({"library":"%s","variant":"%s","op":"%s","ranks":%d,"bytes":%zu,"rewritten":%s,"median_us":%.4f,)"
      R"("min_us":%.4f,"correct":%s,"rtt_ns":%s})"
      "\n",
      options.library.c_str(), options.variant.c_str(), name(call.operation).data(), call.size, call.bytes(),
      inputs == Inputs::rewritten ? "true" : "false", figures.median * 1e6, figures.fastest * 1e6,
      right ? "true" : "false", rtt.c_str());
  std::fflush(stdout);
}

inline Call parse_point(const std::string& text, const Backend& backend) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) throw std::invalid_argument("not of the form operation:bytes: " + text);
  return call_of(parse_operation(text.substr(0, colon)), std::stoull(text.substr(colon + 1)), backend.rank(),
                 backend.size());
}

/// Measures all points of `options`. Operations that the library lacks are left out. True when all results
/// were right.
inline bool run(Backend& backend, const Options& options) {
  std::vector<Call> calls;
  std::size_t largest = 0;
  for (const std::string& point : options.points) {
    calls.push_back(parse_point(point, backend));
    largest = std::max(largest, calls.back().bytes());
  }
  const Memory in(largest), out(largest);
  const auto attached_in = backend.attach(in.floats(), in.bytes());
  const auto attached_out = backend.attach(out.floats(), out.bytes());
  std::optional<RoundTrip> line;
  if (backend.size() > 1 && options.cores.size() > 1) line.emplace(backend);
  bool all_right = true;
  bool warm = false;
  for (const Call& call : calls) {
    Point point(backend, call, in.floats(), out.floats());
    if (!point.supported()) continue;
    bool right = point.check();
    // The launcher may still be busy on these cores when its ranks already run.
    if (!std::exchange(warm, true)) (void)measure(point, Inputs::unchanged, 0.3);
    for (const std::string& mode : options.modes) {
      const Inputs inputs = mode == "rewritten" ? Inputs::rewritten : Inputs::unchanged;
      std::optional<double> round_trip;
      if (line) round_trip = line->nanoseconds();
      const Figures figures = measure(point, inputs, options.seconds);
      if (line) round_trip = std::min(*round_trip, line->nanoseconds());
      right = point.last_was_right() && right;
      if (backend.rank() == 0) print(options, call, inputs, figures, right, round_trip);
      all_right = all_right && right;
    }
  }
  return all_right;
}

}  // namespace bench
