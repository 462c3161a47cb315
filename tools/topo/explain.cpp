#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "command_line.hpp"
#include "communicator/select.hpp"
#include "json_text.hpp"
#include "own_ranks.hpp"
#include "sim/report.hpp"
#include "sim/settings.hpp"
#include "simulation/compare.hpp"
#include "simulation/world_network.hpp"
#include "topo/commands.hpp"
#include "topology/load.hpp"
#include "topology/pairs.hpp"
#include "tuning/predict.hpp"
#include "tuning/tuning.hpp"

namespace tutti::topo {

namespace {

using simulation::size_text;

struct Request {
  std::string operation{}, topology{};  ///< no topology: this machine, with CPU buffers
  Collective collective = Collective::all_reduce;
  std::size_t bytes = 0;
  int nodes = 1, ranks = 0;
  bool json = false;
};

struct Explanation {
  std::vector<topology::PairKind> kinds{};
  Choice library{};  ///< what a communicator would take
  simulation::Network network{};
  sim::Answer answer{};
  std::string_view more_effort{};  ///< where another tool allows it
};

Explanation explain(const Request& request, const topology::World& world) {
  if (world.size() < 2) throw Error(ErrorCode::invalid_argument, "one rank talks to nobody; see --ranks");
  const bool described = !request.topology.empty();
  Explanation found;
  found.kinds =
      topology::kinds_of_pairs(world, {.memory = described ? topology::Memory::gpu : topology::Memory::cpu});
  const tuning::Scene scene{.transport = request.nodes == 1 ? "shm" : "tcp",
                            .ranks = world.size(),
                            .host_size = world.size() / request.nodes,
                            .cpus = described ? 0 : own_cpus()};
  Circumstances circumstances;
  circumstances.collective = request.collective;
  circumstances.bytes = request.bytes;
  circumstances.ranks = scene.ranks;
  circumstances.transport = scene.transport;
  circumstances.node_size = scene.host_size;
  const auto tuning = tuning::Tuning::defaults();
  const auto choices = tuning->choices(scene);
  circumstances.choices = choices.get();
  found.library = select(circumstances);
  found.library.piece = std::min(found.library.piece, tuning::max_message(scene));
  simulation::Question question{.collective = request.collective, .bytes = request.bytes};
  if (described) {
    found.network = simulation::network_of(world);
    question.more_effort = found.more_effort = sim::more_effort;
  } else {
    const tuning::Costs costs = tuning->costs(scene, request.bytes);
    found.network = tuning::network_of(scene, costs);
    question = tuning::candidates_for({scene, request.collective, request.bytes}, costs);
  }
  found.answer = {request.nodes, request.bytes, simulation::rank_candidates(found.network, question)};
  return found;
}

void print(const Request& request, const topology::World& world, const Explanation& found) {
  fmt::print("{} of {} on {} ranks, {} a node\n\ntransports\n", request.operation,
             size_text(static_cast<double>(request.bytes)), world.size(), world.size() / request.nodes);
  fmt::print("{}", topology::describe(world, found.kinds));
  fmt::print("\na communicator (CPU buffers{}) that was not tuned takes {}, pieces up to {} ({})\n",
             request.nodes == 1 ? "" : ", TCP between hosts", found.library.algorithm->name,
             size_text(static_cast<double>(found.library.piece)), found.library.why);
  fmt::print("\nthe simulator, {}\n", request.topology.empty()
                                          ? "with default costs of shared memory that nobody measured here"
                                          : "with buffers on the devices, on the paths of the topology");
  fmt::print("{}", simulation::describe(found.network, found.answer.ranking, found.more_effort));
}

nlohmann::json to_json(const Request& request, const topology::World& world, const Explanation& found) {
  nlohmann::json pairs = nlohmann::json::array(), lost = nlohmann::json::array();
  for (const topology::PairKind& kind : found.kinds) {
    nlohmann::json refused = nlohmann::json::array();
    for (const auto& refusal : kind.choice.refused)
      refused.push_back({{"means", topology::name(refusal.means)}, {"why", refusal.why}});
    pairs.push_back({{"kind", kind.name},
                     {"from", kind.from},
                     {"to", kind.to},
                     {"means", topology::name(kind.choice.means)},
                     {"refused", std::move(refused)}});
  }
  const auto& candidates = found.answer.ranking.candidates;
  for (const simulation::Candidate* loser : simulation::runners_up(candidates)) {
    nlohmann::json reasons = nlohmann::json::array();
    for (const auto& reason : simulation::differences(found.network, *loser, candidates[0]))
      reasons.push_back({{"seconds", reason.seconds}, {"what", reason.what}});
    lost.push_back({{"algorithm", loser->algorithm->name},
                    {"piece", loser->result.piece},
                    {"seconds", loser->result.seconds},
                    {"estimated", loser->result.estimated},
                    {"differences", std::move(reasons)}});
  }
  return {{"operation", request.operation},
          {"bytes", request.bytes},
          {"ranks", world.size()},
          {"pairs", std::move(pairs)},
          {"library",
           {{"algorithm", found.library.algorithm->name},
            {"piece", found.library.piece},
            {"why", found.library.why}}},
          {"prediction", sim::to_json(found.network, found.answer)},
          {"lost", std::move(lost)}};
}

void answer(const Request& request) {
  const bool described = !request.topology.empty();
  constexpr int local_ranks = 2;  // a machine without GPUs may have one NUMA node
  const topology::World world =
      topology::uniform_world(topology::load(described ? request.topology : "this"), request.nodes,
                              request.ranks == 0 && !described ? local_ranks : request.ranks);
  const Explanation found = explain(request, world);
  if (request.json)
    fmt::print("{}\n", json_text(to_json(request, world, found), 2));
  else
    print(request, world, found);
}

}  // namespace

void add_explain(CLI::App& app, Command& chosen) {
  auto request = std::make_shared<Request>();
  auto* command = app.add_subcommand(
      "explain", "Shows which transports and which schedule an operation takes, and why no others");
  command->add_option("operation", request->operation, "all_reduce, all_to_all, ...")->required();
  command->add_option("bytes", request->bytes, "Size as nccl-tests counts it: 64M")
      ->required()
      ->transform(size(sim::most_bytes));
  auto* topology = command
                       ->add_option("--topology", request->topology,
                                    "A built-in machine or a file (default: this machine's own ranks)")
                       ->check(file_name());
  command->add_option("--nodes", request->nodes, "How many of these machines (default 1)")
      ->check(CLI::Range(1, 100'000))
      ->needs(topology);
  command->add_option("--ranks", request->ranks, "Ranks on each (default: one a GPU; on this machine 2)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", request->json, "All that is known, for programs");
  command->callback([request, &chosen] {
    request->collective = parse_collective(request->operation);
    chosen = [request] { answer(*request); };
  });
}

}  // namespace tutti::topo
