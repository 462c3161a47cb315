#include "window/measure.hpp"

#include <algorithm>
#include <bit>
#include <chrono>

#include "perf/measure.hpp"

namespace tutti::window_perf {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return perf::quantile(values, 0.5);
}

// Of a transfer of `bytes`: differs between ranks, and between sizes of which one is twice the other, and so
// on.
std::uint8_t pattern(Rank rank, std::size_t bytes, std::size_t i) {
  const auto size = static_cast<std::size_t>(std::bit_width(bytes));
  return static_cast<std::uint8_t>(i * 7 + i / 255 + 1 + static_cast<std::size_t>(rank) + size * 31);
}

}  // namespace

Pair::Pair(Communicator& comm, std::size_t bytes, bool plain)
    : comm_(comm),
      bytes_(bytes),
      shared_(comm.allocate<std::uint8_t>(plain ? 0 : 2 * bytes)),
      plain_(plain ? 2 * bytes : 0),
      memory_(plain ? std::span(plain_) : shared_.span()),
      window_(comm, memory_, {.name = "perf"}) {}

void Pair::prepare(std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    memory_[i] = pattern(comm_.rank(), bytes, i);
    memory_[bytes_ + i] = static_cast<std::uint8_t>(~pattern(other(), bytes, i));
  }
  comm_.barrier();
}

Speed Pair::measure_batch(std::size_t bytes, std::size_t count) {
  const Block block{.local = 0, .remote = bytes_, .bytes = bytes};
  const Block back{.local = bytes_, .remote = 0, .bytes = bytes};
  const double puts = seconds_of([&] {
    for (std::size_t k = 0; k < count; ++k) window_.put(1, block);
    window_.flush(1);
  });
  const double gets = seconds_of([&] {
    for (std::size_t k = 0; k < count; ++k) window_.get(1, back);
    window_.flush(1);
  });
  const auto all = static_cast<double>(bytes * count);
  return {.put = all / puts / 1e9, .get = all / gets / 1e9};
}

Speed Pair::bandwidth(std::size_t bytes, std::size_t count, int batches) {
  prepare(bytes);
  std::vector<double> put, get;
  for (int number = -1; number < batches; ++number) {  // the first one warms up
    // The target sleeps in this wait; in a barrier it would look at its queues all the time. One a batch: a
    // wait has the communicator's timeout.
    if (comm_.rank() == 1) {
      window_.wait_notification(2, 1, 0);
      continue;
    }
    const Speed speed = measure_batch(bytes, count);
    window_.notify(1, 2).wait();
    if (number < 0) continue;
    put.push_back(speed.put);
    get.push_back(speed.get);
  }
  comm_.barrier();
  return comm_.rank() == 0 ? Speed{median(put), median(get)} : Speed{};
}

double Pair::latency(std::size_t bytes, std::size_t count, int batches) {
  prepare(bytes);
  const Block block{.local = 0, .remote = bytes_, .bytes = bytes};
  std::vector<double> times;
  for (int batch = -1; batch < batches; ++batch) {
    auto last = Clock::now();
    for (std::size_t k = 0; k < count; ++k) {
      if (comm_.rank() == 1) window_.wait_notification(1, 1, 0);
      window_.put(other(), block, {.notify = 1});
      if (comm_.rank() == 0) window_.wait_notification(1, 1, 1);
      const auto now = Clock::now();
      if (batch >= 0) times.push_back(std::chrono::duration<double, std::micro>(now - last).count() / 2);
      last = now;
    }
  }
  window_.flush(other());
  comm_.barrier();
  return median(times);
}

bool Pair::intact(std::size_t bytes) const {
  for (std::size_t i = 0; i < bytes; ++i)
    if (memory_[bytes_ + i] != pattern(other(), bytes, i)) return false;
  return true;
}

}  // namespace tutti::window_perf
