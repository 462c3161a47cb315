#include "sim/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>

#include "algorithm_name.hpp"
#include "command_line.hpp"
#include "output_file.hpp"
#include "topology/builtin.hpp"

namespace tutti::sim {

std::variant<Settings, int> parse_command_line(int argc, const char* const* argv) {
  Settings settings;
  std::string operation;
  std::vector<std::uint64_t> sizes;
  CLI::App app(
      "Predicts how long an operation takes on machines that need not be there: the schedules that tutti "
      "runs, on the links of a topology.");
  constexpr int most_nodes = 1 << 20;
  app.add_option("operation", operation, "all_reduce, all_gather, reduce_scatter, all_to_all, ...")
      ->required();
  app.add_option("bytes", sizes, "Sizes as nccl-tests counts them: 64K 64M")
      ->required()
      ->transform(size(sim::most_bytes));
  app.add_option("-t,--topology", settings.topology,
                 fmt::format("A built-in machine ({}), a file, or \"this\" (default dgx-h100)",
                             fmt::join(topology::builtin_names(), ", ")));
  app.add_option("-n,--nodes", settings.nodes, "How many of these machines: 1 2 4 (default 1)")
      ->check(CLI::Range(1, most_nodes));
  app.add_option("--ranks-per-node", settings.ranks_per_node,
                 "Ranks on each machine (default: one a GPU, or a NUMA node)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--algorithm", settings.algorithm, "Only this algorithm (default: the fastest of all)");
  app.add_option("--piece", settings.piece,
                 "Bytes of a chunk that go in one message (default: the best of several)")
      ->transform(size(sim::most_bytes, 1));
  app.add_option("--effort", settings.effort,
                 "Simulate this many times as much before a candidate is given up (default 1: some seconds)")
      ->check(number_between("1e-6", "1e6"));
  app.add_option("--links", settings.links, "Show this many of the busiest links")
      ->check(CLI::Range(0, 1000));
  app.add_option("--json", settings.json,
                 "Write all candidates to this file as well; -: to stdout, and the text to stderr")
      ->check(file_name());
  app.add_option("--plot", settings.plot, "Draw the fastest times to this file (SVG); -: as --json")
      ->check(file_name());
  return settings_or_end(app, settings, [&] {
    app.parse(argc, argv);
    settings.collective = parse_collective(operation);
    if (app.count("--algorithm") > 0) check_algorithm(operation, settings.algorithm);
    if (!settings.json.empty() && !settings.plot.empty() && is_same_file(settings.json, settings.plot))
      throw CLI::ValidationError("--plot", "wants a file of its own, not that of --json");
    settings.sizes.assign(sizes.begin(), sizes.end());
  });
}

}  // namespace tutti::sim
