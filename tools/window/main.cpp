/// tutti-window-perf: bandwidth and latency of windows between two ranks. `tutti-window-perf --help` says
/// how.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "command_line.hpp"
#include "own_ranks.hpp"
#include "patient_lines.hpp"
#include "perf/launch.hpp"
#include "run_tool.hpp"
#include "window/measure.hpp"

namespace {

using namespace tutti;

struct Settings {
  perf::Settings launch;
  std::size_t begin = 8, end = 8 << 20;
  std::size_t volume = 64 << 20;
  int batches = 5;
  bool plain = false;
};

std::variant<Settings, int> parse_command_line(int argc, const char* const* argv) {
  Settings settings;
  CLI::App app(
      "Measures windows between two ranks: bandwidth of puts and gets, many under way, and the latency of a "
      "put with its notification.\nRuns under mpirun, mpiexec or srun, or starts two ranks on this host with "
      "--ranks 2.");
  const auto bytes = size();
  app.add_option("-b,--minbytes", settings.begin, "Smallest size (default 8)")->transform(bytes);
  app.add_option("-e,--maxbytes", settings.end, "Largest size (default 8M)")->transform(bytes);
  app.add_option("--volume", settings.volume, "Bytes to move in a batch of large transfers (default 64M)")
      ->transform(bytes);
  app.add_option("--batches", settings.batches, "Batches; results are medians (default 5)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--ranks", settings.launch.ranks, "Start two ranks on this host")->check(CLI::IsMember({2}));
  app.add_flag("--threads", settings.launch.threads, "With --ranks: ranks are threads, not processes")
      ->needs("--ranks");
  app.add_flag("!--no-pin", settings.launch.pin, "With --ranks: do not pin ranks to cores")->needs("--ranks");
  app.add_option("--transport", settings.launch.options.transport, "Force a transport: shm, verbs or tcp")
      ->check(transport_name());
  add_timeout(app, settings.launch.options.timeout);
  app.add_flag("--plain", settings.plain, "Use plain memory, not that of Communicator::allocate");
  return settings_or_end(app, settings, [&] {
    parse_over_environment(app, argc, argv, settings.launch.options);
    require_sizes_between(settings.begin, settings.end);
    check_own_ranks(settings.launch.ranks, settings.launch.options.timeout);
  });
}

bool measure(Communicator& comm, const Settings& settings) {
  if (comm.size() != 2)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("it takes 2 ranks, not {}: give --ranks 2, or start it by mpirun -n 2", comm.size()));
  window_perf::Pair pair(comm, settings.end, settings.plain);
  const bool prints = comm.rank() == 0;
  PatientLines table(stdout);
  if (prints)
    fmt::print(table.lines(), "# path: {}\n# {:>14} {:>12} {:>12} {:>16}\n# {:>14} {:>12} {:>12} {:>16}\n",
               pair.window().path(1), "size", "put", "get", "put and notify", "bytes", "GB/s", "GB/s", "us");
  bool good = true;
  for (std::size_t bytes = settings.begin; bytes <= settings.end; bytes = bytes == 0 ? 1 : bytes * 2) {
    const std::size_t count =
        std::clamp<std::size_t>(settings.volume / std::max<std::size_t>(bytes, 1), 2, 1000);
    const auto speed = pair.bandwidth(bytes, count, settings.batches);
    good = pair.intact(bytes) && good;
    const double latency = pair.latency(bytes, std::min<std::size_t>(count, 200), settings.batches);
    good = pair.intact(bytes) && good;
    if (!prints) continue;
    fmt::print(table.lines(), "  {:>14} {:>12.4g} {:>12.4g} {:>16.4g}\n", bytes, speed.put, speed.get,
               latency);
    table.push();
  }
  if (!good) fmt::print(stderr, "tutti-window-perf: rank {}: wrong data\n", comm.rank());
  int wrong = good ? 0 : 1;
  comm.all_reduce(std::span(&wrong, 1));  // from here on, nobody uses this rank's memory any more
  if (!prints) return true;               // a launcher ends rank 0, too, as another fails
  table.finish();
  return wrong == 0;
}

bool run(const Settings& settings) {
  return perf::run_ranks("tutti-window-perf", settings.launch,
                         [&](Communicator& comm) { return measure(comm, settings); });
}

}  // namespace

int main(int argc, char** argv) {
  return run_tool("tutti-window-perf", [&] {
    const auto command = parse_command_line(argc, argv);
    if (const int* status = std::get_if<int>(&command)) return *status;
    return run(std::get<Settings>(command)) ? EXIT_SUCCESS : EXIT_FAILURE;
  });
}
