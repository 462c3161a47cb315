#include "perf/settings.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include <tutti/error.hpp>

#include "algorithm_name.hpp"
#include "command_line.hpp"
#include "own_ranks.hpp"

namespace tutti::perf {

namespace {

struct Range {
  std::uint64_t begin = 8, end = 64 << 20, step = 0;
  double factor = 2;
};

std::vector<std::size_t> sizes_of(const Range& range) {
  require_sizes_between(range.begin, range.end);
  if (range.step == 0 && !(range.factor > 1 && std::isfinite(range.factor)))
    throw CLI::ValidationError("-f", "must be a number larger than 1");
  constexpr std::size_t most_sizes = 1000000;
  std::vector<std::size_t> sizes;
  for (std::uint64_t size = range.begin; size <= range.end;) {
    if (sizes.size() == most_sizes)
      throw CLI::ValidationError(
          range.step != 0 ? "-i" : "-f",
          "leads to more than " + std::to_string(most_sizes) + " sizes; choose a larger one");
    sizes.push_back(size);
    const double next = range.step != 0 ? static_cast<double>(size) + static_cast<double>(range.step)
                                        : static_cast<double>(size) * range.factor;
    if (next > static_cast<double>(range.end)) break;
    size = std::max<std::uint64_t>(static_cast<std::uint64_t>(next), size + 1);
  }
  return sizes;
}

std::string benchmark_names() {
  std::string names;
  for (const Benchmark& benchmark : benchmarks())
    names += (names.empty() ? "" : ", ") + std::string(benchmark.name);
  return names;
}

}  // namespace

void check_ranks(const Settings& settings, int ranks) {
  if (settings.benchmark.kind == Kind::ping_pong && ranks < 2)
    throw Error(ErrorCode::invalid_argument,
                "ping_pong takes two ranks or more, not one: give --ranks 2, or start it by mpirun -n 2");
  if (settings.benchmark.rooted && settings.root >= ranks)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is no root {}: ranks go from 0 to {}", settings.root, ranks - 1));
}

std::variant<Settings, int> parse_command_line(int argc, const char* const* argv) {
  Settings settings;
  Range range;
  std::string operation, types = "float32", reductions = "sum";

  CLI::App app(
      "Measures and checks tutti's operations on host memory, with nccl-tests' columns, sizes, bandwidths\n"
      "and options -b -e -i -f -n -w -c -d -o -r. Others of its options are replaced: by --ranks and "
      "--threads\n"
      "(-g, -t), --timeout (-T), --json (-J), --registered (-R).\n"
      "A time is the median of batches, of each its slowest rank's; nccl-tests' is the mean over ranks.\n"
      "Runs under mpirun, mpiexec or srun, or starts ranks on this host itself with --ranks.");
  const auto bytes = size();
  constexpr int most = std::numeric_limits<int>::max();
  const CLI::Range positive(1, most), natural(0, most);
  app.add_option("operation", operation, benchmark_names())->required();
  app.add_option("-b,--minbytes", range.begin, "Smallest size, e.g. 8 or 1M (default 8)")->transform(bytes);
  app.add_option("-e,--maxbytes", range.end, "Largest size (default 64M)")->transform(bytes);
  auto* step = app.add_option("-i,--stepbytes", range.step, "Add this much from size to size")
                   ->transform(size(most_bytes, 1));
  app.add_option("-f,--stepfactor", range.factor, "Multiply the size by this (default 2)")->excludes(step);
  app.add_option("-n,--iters", settings.iterations, "Calls in a batch (default: as many as take about 5 ms)")
      ->check(positive);
  app.add_option("--batches", settings.batches, "Batches; the time is their median (default 5)")
      ->check(positive);
  app.add_option("-w,--warmup_iters", settings.warmups, "Calls before the first batch (default 21)")
      ->check(natural);
  app.add_option("-c,--check", settings.checks,
                 "Calls that are checked before the measurement, and as many after it, each with other "
                 "inputs; 0: none "
                 "(default 1)")
      ->check(natural);
  app.add_option("-t,-d,--datatype", types, "Element type, or all (default float32)");
  app.add_option("-o,--op", reductions, "sum, product, min, max, average, mulsum or all (default sum)");
  app.add_option("-r,--root", settings.root, "Root; -1 or all: every rank in turn (default 0)")
      ->transform([](const std::string& text) { return text == "all" ? std::to_string(all_roots) : text; })
      ->check(CLI::Range(all_roots, most));
  app.add_option("--ranks", settings.ranks, "Start this many ranks on this host")->check(CLI::Range(1, 1024));
  app.add_flag("--threads", settings.threads, "With --ranks: ranks are threads, not processes")
      ->needs("--ranks");
  app.add_flag("!--no-pin", settings.pin, "With --ranks: do not pin ranks to cores")->needs("--ranks");
  app.add_option("--transport", settings.options.transport, "Force a transport: shm, verbs or tcp")
      ->check(transport_name());
  app.add_option("--algorithm", settings.options.algorithm, "Force an algorithm: ring, two_shot, ...");
  app.add_flag("--registered", settings.registered, "Use memory of Communicator::allocate");
  app.add_flag("--rewrite", settings.rewrite,
               "Rewrite the inputs before every call, outside the measured time");
  app.add_flag("--explain", settings.explain, "Say for every size which path is taken, and why");
  add_timeout(app, settings.options.timeout);
  app.add_option("--json", settings.json,
                 "Write the results to this file as well; -: to stdout, and the table to stderr")
      ->check(file_name());

  return settings_or_end(app, settings, [&] {
    parse_over_environment(app, argc, argv, settings.options);
    const Benchmark* benchmark = find_benchmark(operation);
    if (benchmark == nullptr)
      throw CLI::ValidationError("operation", "\"" + operation + "\" is none of " + benchmark_names());
    settings.benchmark = *benchmark;
    if (app.count("--algorithm") > 0) check_algorithm(operation, settings.options.algorithm);
    settings.sizes = benchmark->kind == Kind::barrier ? std::vector<std::size_t>{0} : sizes_of(range);
    settings.types = parse_types(types);
    if (benchmark->kind == Kind::barrier) settings.types.resize(1);  // it has no elements
    settings.reductions = parse_reductions(reductions);
    if (!benchmark->reduces) settings.reductions = {{"none", ReduceOp::sum}};
    check_own_ranks(settings.ranks, settings.options.timeout);
    if (settings.ranks > 0) check_ranks(settings, settings.ranks);
  });
}

}  // namespace tutti::perf
