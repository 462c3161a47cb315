// What this machine's memory allows: the bound that docs/performance.md holds calls on registered memory
// against.
//
// All threads at once, each on its own part of each buffer and bound to its own processor. Bytes count as a
// program sees them: read once, written once; what the processor reads in order to write it comes on top.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "kernels/fold.hpp"
#include "numbers.hpp"
#include "peers/cores.hpp"
#include "run_tool.hpp"

namespace {

struct Test {
  std::string name;
  int sources, sinks;
  bool streaming;
};

// Pages as registered memory has them.
class Shared {
 public:
  explicit Shared(std::size_t bytes)
      : bytes_(bytes),
        data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Shared() { ::munmap(data_, bytes_); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

// `sources` read and `sinks` written of `bytes` each.
void pass(const Test& test, const std::vector<std::byte*>& buffers, std::size_t from, std::size_t bytes) {
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> sinks;
  for (int i = 0; i < test.sources; ++i) sources.push_back(buffers[static_cast<std::size_t>(i)] + from);
  for (int i = 0; i < test.sinks; ++i)
    sinks.push_back(buffers[static_cast<std::size_t>(test.sources + i)] + from);
  if (test.sources == 0) {
    std::memset(sinks[0], 1, bytes);
    return;
  }
  const auto fold = tutti::kernels::fold_for(tutti::DataType::float32, tutti::ReduceOp::sum);
  const tutti::kernels::FoldModifiers modifiers{.streaming_sinks = test.streaming ? ~std::uint64_t{0} : 0};
  tutti::kernels::fold_to_all(fold, sizeof(float), sinks, sources, bytes / sizeof(float), modifiers);
}

// The median of some passes, in GB/s over all threads.
double rate(const Test& test, const std::vector<int>& cores, int threads, std::size_t bytes, int passes) {
  std::deque<Shared> storage;
  std::vector<std::byte*> buffers;
  for (int i = 0; i < test.sources + test.sinks; ++i) buffers.push_back(storage.emplace_back(bytes).data());
  std::barrier meet(threads);
  std::vector<double> rates;
  constexpr std::size_t line = 64;  // parts that begin within an element are not written past the caches
  const std::size_t part = bytes / static_cast<std::size_t>(threads) / line * line;
  const double all_parts = static_cast<double>(part) * threads;
  const auto work = [&](int thread) {
    bench::pin(thread, cores);
    const std::size_t from = static_cast<std::size_t>(thread) * part;
    // Pages lie near to who touches them first. Not zeros: some processors write lines of zeros twice as fast
    // as others.
    for (std::byte* const buffer : buffers)
      std::fill_n(reinterpret_cast<float*>(buffer + from), part / sizeof(float), 1.0F);
    for (int i = 0; i < passes; ++i) {
      meet.arrive_and_wait();
      const auto start = std::chrono::steady_clock::now();
      pass(test, buffers, from, part);
      meet.arrive_and_wait();
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      if (thread == 0) rates.push_back(all_parts * (test.sources + test.sinks) / elapsed.count() / 1e9);
    }
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  others.clear();
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

// Nanoseconds for a cache line from the first processor to the second and back: virtual ones move, and what
// memory allows moves with them (bench/README.md), so each row has its own.
double round_trip(const std::vector<int>& cores) {
  constexpr int series = 8;
  constexpr std::uint64_t trips = 400;
  std::atomic<std::uint64_t> line = 0;
  const auto take_turns = [&](std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      while (line.load(std::memory_order_acquire) != first + 2 * i) {
      }
      line.store(first + 2 * i + 1, std::memory_order_release);
    }
  };
  const std::jthread other([&] {
    bench::pin(1, cores);
    take_turns(1, series * trips);
  });
  bench::pin(0, cores);
  auto best = std::chrono::nanoseconds::max();
  for (std::uint64_t s = 0; s < series; ++s) {
    const auto start = std::chrono::steady_clock::now();
    take_turns(2 * s * trips, trips);
    best = std::min(best, std::chrono::nanoseconds(std::chrono::steady_clock::now() - start));
  }
  return static_cast<double>(best.count()) / trips;
}

int run(int argc, char** argv) {
  const std::vector<int> cores = bench::allowed_cores();
  int threads = static_cast<int>(cores.size());
  std::vector<std::size_t> mebibytes{16, 64};
  int passes = 21;
  CLI::App app{"Memory bandwidth of all threads together"};
  app.add_option("--threads", threads, "One a processor by default, which is the most")
      ->capture_default_str()
      ->check(CLI::Range(1, threads));
  app.add_option("--mebibytes", mebibytes, "Of each buffer")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24));  // in bytes, that is a number still
  app.add_option("--passes", passes, "The median counts")->capture_default_str()->check(CLI::PositiveNumber);
  tutti::take_no_octal_numbers(app);
  CLI11_PARSE(app, argc, argv);
  const std::vector<Test> tests{{"write", 0, 1, false},
                                {"copy", 1, 1, false},
                                {"copy, streaming", 1, 1, true},
                                {"a = b + c", 2, 1, false},
                                {"a = b + c, streaming", 2, 1, true},
                                {"a = d = b + c (all_reduce of 2)", 2, 2, false},
                                {"a = d = b + c, streaming", 2, 2, true},
                                {"a = d = b (all_gather of 2)", 1, 2, false},
                                {"a = d = b, streaming", 1, 2, true}};
  std::printf("GB/s of %d threads, read and written\n%-34s", threads, "MiB a buffer");
  for (const std::size_t m : mebibytes) std::printf("%10zu", m);
  if (threads == 2) std::printf("%24s", "a line's round trip, ns");
  for (const Test& test : tests) {
    const double before = threads == 2 ? round_trip(cores) : 0;
    std::printf("\n%-34s", test.name.c_str());
    for (const std::size_t m : mebibytes) std::printf("%10.1f", rate(test, cores, threads, m << 20U, passes));
    if (threads == 2) std::printf("%12.0f to %.0f", before, round_trip(cores));
  }
  std::printf("\n");
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  return tutti::run_tool("memory-bench", [&] { return run(argc, argv); });
}
