#include "tune/measure.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>

#include <tutti/error.hpp>

#include "base/file_descriptor.hpp"
#include "base/memory_file.hpp"
#include "base/system_error.hpp"
#include "collectives/algorithms.hpp"
#include "perf/benchmark.hpp"
#include "perf/buffers.hpp"
#include "perf/launch.hpp"
#include "perf/measure.hpp"

namespace tutti::tune {

namespace {

/// One communicator for every way to call.
class Ways {
 public:
  Ways(Communicator& first, const Options& options, bool chosen) : options_(options) {
    if (chosen) add(first, "");
    for (const Algorithm& algorithm : algorithms())
      if (!algorithm.one_sided && algorithm.by_nodes == nullptr &&
          !ways_.contains(std::string(algorithm.name)))
        add(first, algorithm.name);
  }
  /// The algorithms of a collective, "" among them if the library may choose.
  [[nodiscard]] std::vector<std::string> of(Collective collective) const {
    std::vector<std::string> names;
    for (const auto& [name, comm] : ways_) {
      const Algorithm* algorithm = find_algorithm(collective, name);
      if (name.empty() || (algorithm != nullptr && !algorithm->one_sided && algorithm->by_nodes == nullptr))
        names.push_back(name);
    }
    return names;
  }
  Communicator& operator[](const std::string& name) { return ways_.at(name); }

 private:
  void add(Communicator& first, std::string_view algorithm) {
    UniqueId id;
    if (first.rank() == 0) id = UniqueId::create(options_.interface);
    first.broadcast(id.bytes.data(), id.bytes.data(), id.bytes.size(), DataType::uint8, 0);
    Options options = options_;
    options.algorithm = algorithm;
    if (!algorithm.empty()) options.rank_order = false;  // most have another order, and would be refused
    ways_.emplace(algorithm, Communicator(id, first.rank(), first.size(), options));
  }

  const Options& options_;
  std::map<std::string, Communicator> ways_;
};

perf::Kind kind_of(Collective collective) { return perf::find_benchmark(name(collective))->kind; }

/// In every round all ways take turns.
void measure_ways(Ways& ways, const tuning::Question& question, int rounds, const perf::Buffers& buffers,
                  std::vector<Measured>& into) {
  const std::vector<std::string> names = ways.of(question.collective);
  const perf::Kind kind = kind_of(question.collective);
  const Rank me = ways[names[0]].rank();
  const perf::Layout layout =
      perf::make_layout(kind, question.bytes / sizeof(float), question.scene.ranks, me, 0);
  const Call call =
      perf::make_call(kind, layout, DataType::float32, ReduceOp::sum, 0, buffers.in(), buffers.out());
  constexpr double microsecond = 1e-6;
  std::vector<std::vector<double>> times(names.size());
  constexpr std::size_t long_calls = std::size_t{2} << 20U;  // one of these is a batch
  std::vector<int> iterations(names.size(), question.bytes >= long_calls ? 1 : 0);
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < names.size(); ++i) {
      Communicator& comm = ways[names[i]];
      const perf::Timing timing =
          perf::measure(comm, {.iterations = iterations[i], .batches = 1, .warmups = round == 0 ? 2 : 1},
                        [&] { perf::run(comm, kind, call); });
      iterations[i] = timing.iterations;
      times[i].push_back(timing.median * microsecond);
    }
  for (std::size_t i = 0; i < names.size(); ++i)
    into.push_back({{question, names[i], undisturbed(times[i])}, times[i]});
}

/// Runs `body` on ranks that are started for it and end with it. Throws Error when one fails.
void on_ranks(const std::string& transport, int ranks, const Settings& settings, const perf::Body& body) {
  perf::Settings launch;
  launch.ranks = ranks;
  launch.options = settings.options;
  launch.options.transport = transport;
  const pid_t parent = ::getpid();
  const bool well = perf::run_processes("tutti-tune", launch, body);
  if (::getpid() != parent) std::_Exit(well ? EXIT_SUCCESS : EXIT_FAILURE);
  if (!well) throw Error(ErrorCode::peer_lost, fmt::format("one of {} ranks by {} failed", ranks, transport));
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// In no folder: one may be full, or not be there.
File temporary_file() {
  FileDescriptor memory = make_memory_file("tutti-tune");
  if (!memory) throw_errno("making a temporary file (memfd_create)");
  File file(::fdopen(memory.get(), "w+"));
  if (file == nullptr) throw_errno("opening a temporary file");
  static_cast<void>(memory.release());  // the file's
  return file;
}

// Questions and names are known to the reader; figures pass from the process of rank 0 through a file.
void write(std::FILE* file, std::span<const Measured> all) {
  std::string text;
  for (const auto& [sample, rounds] : all)
    text += fmt::format("{} {} {} {:.17g}\n", name(sample.question.collective), sample.question.bytes,
                        sample.algorithm.empty() ? "-" : sample.algorithm, fmt::join(rounds, " "));
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fflush(file) != 0)
    throw_errno("writing what was measured to a temporary file");
}

std::vector<Measured> read(std::FILE* file, const Series& series, int rounds) {
  std::rewind(file);
  std::vector<Measured> all;
  char collective[64], algorithm[64];
  std::size_t bytes = 0;
  while (std::fscanf(file, "%63s %zu %63s", collective, &bytes, algorithm) == 3) {
    std::vector<double> times(static_cast<std::size_t>(rounds));
    for (double& seconds : times)
      if (std::fscanf(file, "%lf", &seconds) != 1)
        throw Error(ErrorCode::system, "what the ranks measured is incomplete");
    const std::string forced = std::string_view(algorithm) == "-" ? "" : algorithm;
    all.push_back({{{series.scene, parse_collective(collective), bytes}, forced, undisturbed(times)}, times});
  }
  return all;
}

}  // namespace

double undisturbed(std::vector<double> times) {
  std::ranges::sort(times);
  return perf::quantile(times, 0.25);
}

void try_out(const std::string& transport, int ranks, const Settings& settings) {
  on_ranks(transport, ranks, settings, [](Communicator&) { return true; });
}

std::vector<Measured> measure(const Series& series, const Settings& settings) {
  const File file = temporary_file();
  Options options = settings.options;
  options.transport = series.scene.transport;
  on_ranks(series.scene.transport, series.scene.ranks, settings, [&](Communicator& comm) {
    Ways ways(comm, options, series.chosen);
    const perf::Buffers buffers(comm, series.sizes.back(), false);
    std::vector<Measured> measured;
    for (const Collective collective : series.collectives)
      for (const std::size_t bytes : series.sizes)
        measure_ways(ways, {series.scene, collective, bytes}, settings.rounds, buffers, measured);
    if (comm.rank() == 0) write(file.get(), measured);
    return true;
  });
  return read(file.get(), series, settings.rounds);
}

}  // namespace tutti::tune
