#include "perf/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

namespace tutti::perf {

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

/// Microseconds a call on this rank.
double batch(Communicator& comm, int calls, const std::function<void()>& call,
             const std::function<void()>& prepare) {
  Clock::duration spent{};
  if (prepare) {
    for (int i = 0; i < calls; ++i) {
      prepare();
      comm.barrier();
      const auto start = Clock::now();
      call();
      spent += Clock::now() - start;
    }
  } else {
    comm.barrier();
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    spent = Clock::now() - start;
  }
  return Microseconds(spent).count() / calls;
}

int calls_in_5_ms(Communicator& comm, const std::function<void()>& call,
                  const std::function<void()>& prepare) {
  double estimate = batch(comm, 3, call, prepare);
  comm.all_reduce(std::span(&estimate, 1), ReduceOp::max);
  return std::clamp(static_cast<int>(5000 / std::max(estimate, 0.01)), 3, 20000);
}

}  // namespace

Timing measure(Communicator& comm, const Method& method, const std::function<void()>& call,
               const std::function<void()>& prepare) {
  for (int i = 0; i < method.warmups; ++i) {
    if (prepare) prepare();
    call();
  }
  Timing timing{.iterations = method.iterations, .batches = method.batches};
  if (timing.iterations == 0) timing.iterations = calls_in_5_ms(comm, call, prepare);

  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(method.batches));
  for (int i = 0; i < method.batches; ++i) times.push_back(batch(comm, timing.iterations, call, prepare));
  comm.all_reduce(std::span(times), ReduceOp::max);
  std::ranges::sort(times);
  timing.median = quantile(times, 0.5);
  timing.p10 = quantile(times, 0.1);
  timing.p90 = quantile(times, 0.9);
  return timing;
}

double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

}  // namespace tutti::perf
