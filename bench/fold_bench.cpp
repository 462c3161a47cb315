// Times of the reduction kernels, beside a plain loop that the compiler vectorises for the baseline
// processor.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <tutti/types.hpp>

#include "command_line.hpp"
#include "kernels/fold.hpp"
#include "numbers.hpp"
#include "run_tool.hpp"

namespace {

using tutti::kernels::Fold;
using tutti::kernels::FoldModifiers;

struct Options {
  std::vector<std::string> types{"float32", "float64", "bfloat16", "float16", "int32", "int64", "fp8_e4m3"};
  std::vector<std::string> ops{"sum"};
  std::vector<std::size_t> bytes{8, 64, 128, 16384, 64U << 20U};
  int sources = 2;
  int sinks = 1;
  int divisor = 1;
  bool streaming = false;
  double seconds = 0.05;
};

struct Buffers {
  std::vector<std::vector<std::byte>> storage;
  std::vector<std::byte*> sinks;
  std::vector<const std::byte*> sources;

  Buffers(const Options& options, std::size_t bytes) {
    // Each buffer starts elsewhere in a page, as users' buffers do: no two share all their cache sets.
    for (int i = 0; i < options.sources + options.sinks; ++i) {
      const std::size_t skew = 576U * static_cast<std::size_t>(i);
      // Small numbers of any type: some processors write lines of zeros twice as fast as others.
      storage.emplace_back(bytes + 64 + skew, std::byte{0x3D});
      std::byte* const base = storage.back().data();
      std::byte* const start = base + (64 - reinterpret_cast<std::uintptr_t>(base) % 64) + skew;
      if (i < options.sources) sources.push_back(start);
      if (i >= options.sources) sinks.push_back(start);
    }
  }
};

/// Seconds that this thread has run: other programs on the machine do not count.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The best of five averages, in nanoseconds.
template <class Call>
double nanoseconds(double seconds, const Call& call) {
  double best = 1e300;
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::size_t calls = 0;
    const double start = thread_seconds();
    double elapsed = 0;
    for (std::size_t batch = 1; elapsed < seconds / 5; batch *= 2) {
      for (std::size_t i = 0; i < batch; ++i) call();
      calls += batch;
      elapsed = thread_seconds() - start;
    }
    best = std::min(best, elapsed * 1e9 / static_cast<double>(calls));
  }
  return best;
}

template <class T>
[[gnu::noinline]] void plain_sum(T* sink, const T* a, const T* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sink[i] = static_cast<T>(a[i] + b[i]);
}

/// 0 where there is none: types that are not C++'s, other operations.
double plain_nanoseconds(tutti::DataType type, const Options& options, const Buffers& buffers,
                         std::size_t count) {
  if (options.sources == 1 && options.sinks == 1) {
    return nanoseconds(options.seconds, [&] {
      std::memcpy(buffers.sinks[0], buffers.sources[0], count * tutti::size_of(type));
      asm volatile("" : : : "memory");
    });
  }
  if (options.sources != 2 || options.sinks != 1) return 0;
  const auto run = [&]<class T>(T) {
    return nanoseconds(options.seconds, [&] {
      plain_sum(reinterpret_cast<T*>(buffers.sinks[0]), reinterpret_cast<const T*>(buffers.sources[0]),
                reinterpret_cast<const T*>(buffers.sources[1]), count);
    });
  };
  switch (type) {
    case tutti::DataType::float32:
      return run(float{});
    case tutti::DataType::float64:
      return run(double{});
    case tutti::DataType::int32:
      return run(std::uint32_t{});
    case tutti::DataType::int64:
      return run(std::uint64_t{});
    default:
      return 0;
  }
}

void measure(const Options& options, tutti::DataType type, tutti::ReduceOp op, std::size_t bytes) {
  const std::size_t count = bytes / tutti::size_of(type);
  const Buffers buffers(options, bytes);
  FoldModifiers modifiers;
  modifiers.divisor = options.divisor;
  modifiers.streaming_sinks = options.streaming ? ~std::uint64_t{0} : 0;
  const Fold fold = tutti::kernels::fold_for(type, op);
  const double ns =
      nanoseconds(options.seconds, [&] { fold(buffers.sinks, buffers.sources, count, modifiers); });
  const double plain = op == tutti::ReduceOp::sum ? plain_nanoseconds(type, options, buffers, count) : 0;
  std::printf("%-9s %-8s %10zu B %12.1f ns %8.2f GB/s", std::string(name(type)).c_str(),
              std::string(name(op)).c_str(), bytes, ns, static_cast<double>(bytes) / ns);
  if (plain > 0) std::printf("   plain %12.1f ns, %.2fx", plain, plain / ns);
  std::printf("\n");
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"Times the reduction kernels; GB/s count the bytes of one sink"};
  app.add_option("--types", options.types, "element types")->delimiter(',');
  app.add_option("--ops", options.ops, "operations")->delimiter(',');
  app.add_option("--bytes", options.bytes, "bytes of one buffer")
      ->delimiter(',')
      ->check(CLI::Range(std::uint64_t{0}, tutti::most_bytes));  // CLI11 takes -1 for 2^64 - 1
  app.add_option("--sources", options.sources, "how many sources")->check(CLI::Range(1, 64));
  app.add_option("--sinks", options.sinks, "how many sinks")->check(CLI::Range(1, 64));
  app.add_option("--divisor", options.divisor, "divide the result by this")->check(CLI::PositiveNumber);
  app.add_flag("--streaming", options.streaming, "write past the caches");
  app.add_option("--seconds", options.seconds, "time for each figure")
      ->check(tutti::seconds_between("0.001", "1000000"));
  tutti::take_no_octal_numbers(app);
  CLI11_PARSE(app, argc, argv);
  std::vector<tutti::DataType> types;
  types.reserve(options.types.size());
  for (const auto& type : options.types) types.push_back(tutti::parse_data_type(type));
  std::vector<tutti::ReduceOp> ops;
  ops.reserve(options.ops.size());
  for (const auto& op : options.ops) ops.push_back(tutti::parse_reduce_op(op));
  std::printf("%s, %d sources, %d sinks\n", tutti::kernels::instruction_set(), options.sources,
              options.sinks);
  for (const auto type : types)
    for (const auto op : ops)
      for (const std::size_t bytes : options.bytes) measure(options, type, op, bytes);
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  return tutti::run_tool("fold-bench", [&] { return run(argc, argv); });
}
