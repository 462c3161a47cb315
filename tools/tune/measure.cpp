#include "tune/measure.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>

#include <tutti/error.hpp>

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
    ways_.emplace(algorithm, Communicator(id, first.rank(), first.size(), options));
  }

  const Options& options_;
  std::map<std::string, Communicator> ways_;
};

perf::Kind kind_of(Collective collective) { return perf::find_benchmark(name(collective))->kind; }

/// Medians over rounds in which all ways take turns: what disturbs one round disturbs all of them.
void measure_ways(Ways& ways, const tuning::Question& question, int rounds, const perf::Buffers& buffers,
                  std::vector<tuning::Sample>& into) {
  const std::vector<std::string> names = ways.of(question.collective);
  const perf::Kind kind = kind_of(question.collective);
  const Rank me = ways[names[0]].rank();
  const perf::Layout layout =
      perf::make_layout(kind, question.bytes / sizeof(float), question.scene.ranks, me, 0);
  std::vector<std::vector<double>> times(names.size());
  constexpr std::size_t long_calls = std::size_t{2} << 20U;  // one of these is a batch
  std::vector<int> iterations(names.size(), question.bytes >= long_calls ? 1 : 0);
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < names.size(); ++i) {
      Communicator& comm = ways[names[i]];
      const perf::Timing timing = perf::measure(
          comm, {.iterations = iterations[i], .batches = 1, .warmups = round == 0 ? 2 : 1}, [&] {
            perf::run(comm, kind, layout, DataType::float32, ReduceOp::sum, 0, buffers.in(), buffers.out());
          });
      iterations[i] = timing.iterations;
      times[i].push_back(timing.median);
    }
  constexpr double microsecond = 1e-6;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::ranges::sort(times[i]);
    into.push_back({question, names[i], perf::quantile(times[i], 0.5) * microsecond});
  }
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Questions and names are known to the reader; figures pass from the process of rank 0 through a file.
void write(std::FILE* file, std::span<const tuning::Sample> samples) {
  for (const tuning::Sample& sample : samples)
    fmt::print(file, "{} {} {} {:.17g}\n", name(sample.question.collective), sample.question.bytes,
               sample.algorithm.empty() ? "-" : sample.algorithm, sample.seconds);
  std::fflush(file);
}

std::vector<tuning::Sample> read(std::FILE* file, const Series& series) {
  std::rewind(file);
  std::vector<tuning::Sample> samples;
  char collective[64], algorithm[64];
  std::size_t bytes = 0;
  double seconds = 0;
  const tuning::Scene scene{.transport = series.transport, .ranks = series.ranks};
  while (std::fscanf(file, "%63s %zu %63s %lf", collective, &bytes, algorithm, &seconds) == 4) {
    const tuning::Question question{scene, parse_collective(collective), bytes};
    const std::string forced = std::string_view(algorithm) == "-" ? "" : algorithm;
    samples.push_back({question, forced, seconds});
  }
  return samples;
}

}  // namespace

std::vector<tuning::Sample> measure(const Series& series, const Settings& settings) {
  const File file(std::tmpfile());
  if (file == nullptr) throw Error(ErrorCode::system, "cannot make a temporary file");
  perf::Settings launch;
  launch.ranks = series.ranks;
  launch.options = settings.options;
  launch.options.transport = series.transport;
  const pid_t parent = ::getpid();
  const bool well = perf::run_processes(launch, [&](Communicator& comm) {
    Ways ways(comm, launch.options, series.chosen);
    const perf::Buffers buffers(comm, series.sizes.back(), false);
    std::vector<tuning::Sample> samples;
    const tuning::Scene scene{.transport = series.transport, .ranks = series.ranks};
    for (const Collective collective : series.collectives)
      for (const std::size_t bytes : series.sizes)
        measure_ways(ways, {scene, collective, bytes}, settings.rounds, buffers, samples);
    if (comm.rank() == 0) write(file.get(), samples);
    return true;
  });
  if (::getpid() != parent) std::_Exit(well ? EXIT_SUCCESS : EXIT_FAILURE);
  if (!well) throw Error(ErrorCode::peer_lost, "a rank that measured failed");
  return read(file.get(), series);
}

}  // namespace tutti::tune
