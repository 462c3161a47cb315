#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <memory>
#include <span>

#include <tutti/options.hpp>

#include "bootstrap/environment.hpp"
#include "bootstrap/session.hpp"
#include "command_line.hpp"
#include "run_tool.hpp"
#include "topo/commands.hpp"
#include "topology/choice.hpp"
#include "topology/exchange.hpp"
#include "topology/host.hpp"
#include "topology/text.hpp"

namespace tutti::topo {

namespace {

constexpr int most_shown = 64;  ///< ranks whose means are listed

struct WorldRequest {
  bool gpus = false;
  Options options;
  std::exception_ptr wrong_variable;
};

/// The means between the first rank and each other one: every kind of pair that there is, mostly.
std::string means_of_first(const topology::World& world, const topology::Rules& rules) {
  std::string text;
  for (Rank rank = 1; rank < std::min(world.size(), most_shown); ++rank)
    text += topology::describe(world, 0, rank, topology::choose(world, 0, rank, rules));
  return text;
}

/// The number of the GPU of this rank, among the ranks of its host: not all launchers say. Collective.
int gpu_of(const bootstrap::Launch& launch, const topology::AllGather& all_gather) {
  const topology::HostId mine = topology::this_host();
  const auto hosts = all_gather(std::as_bytes(std::span(mine)));
  if (launch.local_size > 1) return launch.local_rank;
  const auto me = hosts.begin() + launch.rank;
  return static_cast<int>(std::count(hosts.begin(), me, *me));
}

void show_world(const WorldRequest& request) {
  const auto timeout = request.options.timeout;
  const auto launch = bootstrap::launch_from_environment(request.options.interface, timeout);
  printing_as("tutti-topo", launch.rank, [&] {
    const auto session = bootstrap::Session::join(launch.id, launch.rank, launch.size, timeout);
    const topology::AllGather all_gather = [&](std::span<const std::byte> mine) {
      return session->all_gather(mine, timeout);
    };
    const int gpu = gpu_of(launch, all_gather);
    const auto world =
        topology::exchange(launch.rank, topology::this_place(request.gpus ? gpu : -1), all_gather);
    if (launch.rank == 0)
      fmt::print(
          "{}{}", topology::world_text(world),
          means_of_first(world, {.memory = request.gpus ? topology::Memory::gpu : topology::Memory::cpu}));
    session->leave(std::chrono::seconds(5));
  });
}

}  // namespace

void add_world(CLI::App& app, Command& chosen) {
  auto request = std::make_shared<WorldRequest>();
  auto* command = app.add_subcommand(
      "world", "Under mpirun, mpiexec, srun or torchrun: where all ranks are, and by what means they talk");
  command->add_flag("--gpus", request->gpus,
                    "Ranks drive GPUs, each the one that has its local rank's number");
  command->add_option("--interface", request->options.interface,
                      "Network interface to meet at (default: TUTTI_INTERFACE)");
  add_timeout(*command, request->options.timeout);
  command->preparse_callback(
      [request](std::size_t) { request->wrong_variable = read_environment(request->options); });
  command->callback([request, &chosen] {
    if (request->wrong_variable) std::rethrow_exception(request->wrong_variable);
    chosen = [request] { show_world(*request); };
  });
}

}  // namespace tutti::topo
