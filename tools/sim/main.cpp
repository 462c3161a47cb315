/// tutti-sim: predicts operations on machines that need not be there. `tutti-sim --help` says how.
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "json_text.hpp"
#include "output_file.hpp"
#include "run_tool.hpp"
#include "sim/plot.hpp"
#include "sim/report.hpp"
#include "sim/settings.hpp"
#include "simulation/compare.hpp"
#include "simulation/world_network.hpp"
#include "topology/load.hpp"

namespace {

using namespace tutti;

void run(const sim::Settings& settings) {
  const topology::Machine machine = topology::load(settings.topology);
  std::optional<OutputFile> json, plot;
  if (!settings.json.empty()) json.emplace(settings.json);
  if (!settings.plot.empty()) plot.emplace(settings.plot);
  nlohmann::json all = nlohmann::json::array();
  std::vector<sim::Point> points;
  std::FILE* const to = settings.plot == "-" ? stderr : words_beside(settings.json);
  bool any_estimated = false;
  sim::print_header(to);
  for (const int nodes : settings.nodes) {
    const topology::World world = topology::uniform_world(machine, nodes, settings.ranks_per_node);
    const simulation::Network network = simulation::network_of(world);
    for (const std::size_t bytes : settings.sizes) {
      const sim::Answer answer{nodes, bytes,
                               simulation::rank_candidates(network, {.collective = settings.collective,
                                                                     .bytes = bytes,
                                                                     .algorithm = settings.algorithm,
                                                                     .piece = settings.piece,
                                                                     .effort = settings.effort,
                                                                     .more_effort = sim::more_effort})};
      any_estimated = sim::print(to, network, answer, settings.links) || any_estimated;
      std::fflush(to);
      const simulation::Result& fastest = answer.ranking.candidates.at(0).result;
      points.push_back({network.ranks, static_cast<double>(bytes), fastest.seconds, fastest.estimated});
      if (json) all.push_back(sim::to_json(network, answer));
    }
  }
  if (any_estimated) fmt::print(to, "{}\n", simulation::estimate_note);
  if (json) json->write(json_text(all, 2) + '\n');
  if (plot) plot->write(sim::plot(settings.collective, std::move(points)));
}

}  // namespace

int main(int argc, char** argv) {
  return run_tool("tutti-sim", [&] {
    const auto command = sim::parse_command_line(argc, argv);
    if (const int* status = std::get_if<int>(&command)) return *status;
    run(std::get<sim::Settings>(command));
    return EXIT_SUCCESS;
  });
}
