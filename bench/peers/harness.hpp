/// \file
/// The measurement, the same for every library. bench/README.md says why it is done this way.
///
/// A batch is k calls back to back; its time is that of the slowest rank, divided by k. A point's figures are
/// the median and the fastest of its batches that nobody else disturbed. One JSON object a point and mode
/// goes to rank 0's standard output.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "../../tools/leading_zero.hpp"
#include "core_speed.hpp"
#include "cores.hpp"
#include "first_calls.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "point.hpp"
#include "round_trip.hpp"
#include "stay.hpp"

namespace bench {

struct Figures {
  double median, fastest;  ///< seconds
  double step;             ///< as `Batch::step`: the median
};

template <class Of>
double median_of(std::vector<Batch> batches, Of of) {
  const auto middle = batches.begin() + static_cast<std::ptrdiff_t>(batches.size() / 2);
  std::nth_element(batches.begin(), middle, batches.end(),
                   [&](const Batch& x, const Batch& y) { return x.*of < y.*of; });
  return (*middle).*of;
}

inline constexpr int most_calls = 1 << 22;  ///< of a batch

/// Calls that take a twelfth of `seconds`, where each takes `call`.
inline int calls_of_batch(double seconds, double call) {
  return static_cast<int>(std::clamp(seconds / 12 / std::max(call, 1e-9), 1.0, double{most_calls}));
}

/// Batches of a twelfth of `seconds` each until `seconds` are used, and for up to four times as long until
/// three of them were undisturbed. At least 31 calls go before that do not count: programs that make long
/// calls make many, and libraries may have to settle.
inline Figures measure(Point& point, Inputs inputs, double seconds, CoreSpeed& cores) {
  constexpr std::size_t fewest = 3;
  int calls = 1;
  double call = point.batch(calls, inputs);
  for (double spent = call;
       calls < most_calls && (calls < 16 || (call * calls < seconds / 24 && spent < seconds));
       spent += call * calls)
    call = point.batch(calls *= 2, inputs);
  calls = calls_of_batch(seconds, call);
  std::vector<Batch> batches;
  double before = cores.step();
  for (double spent = 0; spent < seconds || batches.size() < fewest ||
                         (spent < 4 * seconds && cores.undisturbed(batches) < fewest);
       spent += batches.back().seconds * calls) {
    const double took = point.batch(calls, inputs);
    const double after = cores.step();
    batches.push_back({took, std::max(before, after)});
    before = after;
  }
  batches = cores.that_count(std::move(batches), fewest);
  const auto fastest = std::min_element(batches.begin(), batches.end(),
                                        [](const Batch& x, const Batch& y) { return x.seconds < y.seconds; });
  return {median_of(batches, &Batch::seconds), fastest->seconds, median_of(batches, &Batch::step)};
}

inline void print(const Options& options, const Call& call, Inputs inputs, const Figures& figures, bool right,
                  std::optional<double> round_trip) {
  const std::string rtt = round_trip ? std::to_string(*round_trip) : "null";
  std::printf(
      R"({"library":"%s","variant":"%s","op":"%s","ranks":%d,"bytes":%zu,"rewritten":%s,"median_us":%.4f,)"
      R"("min_us":%.4f,"correct":%s,"rtt_ns":%s,"step_ns":%.4f})"
      "\n",
      options.library.c_str(), options.variant.c_str(), name(call.operation).data(), call.size, call.bytes(),
      inputs == Inputs::rewritten ? "true" : "false", figures.median * 1e6, figures.fastest * 1e6,
      right ? "true" : "false", rtt.c_str(), figures.step);
  std::fflush(stdout);
}

inline Call parse_point(const std::string& text, const Backend& backend) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) throw std::invalid_argument("not of the form operation:bytes: " + text);
  const std::string number = text.substr(colon + 1);
  const char* const end = number.data() + number.size();
  constexpr std::size_t most = std::size_t{1} << 44U;  // as tools; what rounding it up adds does not overflow
  std::size_t bytes = 0;
  const auto read = std::from_chars(number.data(), end, bytes);
  if (read.ec != std::errc() || read.ptr != end || tutti::has_leading_zero(number) || bytes > most)
    throw std::invalid_argument("\"" + number + "\" is no number of bytes up to 2^44: " + text);
  return call_of(parse_operation(text.substr(0, colon)), bytes, backend.rank(), backend.size());
}

/// Whether what was printed is written, too; says so where it is lost: on a full disk, say.
inline bool is_written() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  std::fputs("error: cannot write the standard output\n", stderr);
  return false;
}

/// Measures all points of `options`. Operations that the library lacks are left out. True when all results
/// were right, and are written.
inline bool run(Backend& backend, const Options& options) {
  std::vector<Call> calls;
  std::size_t largest = 0;
  for (const std::string& point : options.points) {
    calls.push_back(parse_point(point, backend));
    largest = std::max(largest, calls.back().bytes());
  }
  if (options.first) {
    const bool all_right = first_calls(backend, options, calls);
    return is_written() && all_right;
  }
  const Memory in(largest, options.kind), out(largest, options.kind);
  const auto attached_in = backend.attach(in.floats(), in.bytes());
  const auto attached_out = backend.attach(out.floats(), out.bytes());
  std::optional<RoundTrip> line;
  if (backend.size() > 1 && options.cores.size() > 1) line.emplace(backend);
  CoreSpeed speed(backend);
  bool all_right = true;
  bool warm = false;
  for (const Call& call : calls) {
    Point point(backend, call, in.floats(), out.floats(), cores_in_use(options.cores));
    if (!point.supported()) continue;
    bool right = point.check();
    for (const std::string& mode : options.modes) {
      const Inputs inputs = mode == "rewritten" ? Inputs::rewritten : Inputs::unchanged;
      // The launcher may still be busy on these cores when its ranks already run. Libraries settle for these
      // inputs meanwhile.
      if (!std::exchange(warm, true)) (void)measure(point, inputs, 0.3, speed);
      const auto [figures, round_trip] =
          measure_in_place([&] { return measure(point, inputs, options.seconds, speed); },
                           [&] { return line ? line->nanoseconds() : 0; });
      right = point.still_right() && right;
      if (backend.rank() == 0)
        print(options, call, inputs, figures, right, line ? std::optional(round_trip) : std::nullopt);
      all_right = all_right && right;
    }
  }
  return is_written() && all_right;
}

}  // namespace bench
