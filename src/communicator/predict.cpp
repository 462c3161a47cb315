// What the simulator makes of a call on the machines that the ranks are on.
#include <fmt/format.h>

#include "communicator/impl.hpp"
#include "simulation/compare.hpp"
#include "topology/exchange.hpp"
#include "topology/pairs.hpp"
#include "tuning/predict.hpp"

namespace tutti::detail {

namespace {

struct Picture {
  simulation::Network network{};
  simulation::Question question{};
  std::string constants{};  ///< where they come from, in words
};

std::string source(const tuning::Tuning& tuning, const std::string& transport, int ranks) {
  if (const tuning::Curve* curve = tuning.measured(transport, ranks))
    return fmt::format("{}: measured here on {} ranks", transport, curve->ranks);
  if (!tuning.refused().empty())
    return fmt::format("{}: defaults, as what was measured here cannot be used ({})", transport,
                       tuning.refused());
  return fmt::format("{}: defaults that nobody measured here; see tutti-tune", transport);
}

Picture picture_of(const Planner::Setting& setting, Collective collective, const Call& call) {
  const tuning::Scene& scene = setting.scene;
  const std::size_t bytes = bytes_of(call, setting.size);
  const tuning::Costs costs = setting.tuning->costs(scene, bytes);
  Picture picture{tuning::network_of(scene, costs), tuning::candidates_for({scene, collective, bytes}, costs),
                  source(*setting.tuning, scene.transport, scene.ranks)};
  // One question, which nobody can ask again with more.
  picture.question.effort = 10;
  picture.question.type = call.type;
  picture.question.max_message = setting.max_message;
  if (scene.transport != "shm" && scene.host_size > 1)
    picture.constants += "; " + source(*setting.tuning, "shm", scene.host_size);
  if (costs.crowd > 1)
    picture.constants += fmt::format("; {:.3g} ranks take turns on each processor", costs.crowd);
  if (scene.port > 0) picture.constants += fmt::format("; hosts' ports {:.3g} GB/s", scene.port / 1e9);
  return picture;
}

// The fastest and why no other; then what the communicator's own choice takes.
std::string simulated(const Picture& picture, const Plan& plan, int node_size) {
  const simulation::Ranking ranking = simulation::rank_candidates(picture.network, picture.question);
  std::string text = simulation::describe(picture.network, ranking);
  if (plan.choice.algorithm == nullptr || plan.choice.algorithm->one_sided) return text;
  simulation::Question own = picture.question;
  own.algorithm = plan.name;
  own.piece = plan.program.piece;
  simulation::Network as_called = picture.network;
  as_called.node_size = node_size;  // nodes that Options::node_size makes are no hosts
  text += fmt::format("the communicator's choice, {} in pieces of {}: ", plan.name,
                      simulation::size_text(static_cast<double>(plan.program.piece)));
  try {
    const auto chosen = simulation::rank_candidates(as_called, own).candidates.at(0).result;
    text += fmt::format("{} us\n", simulation::time_text(chosen));
    return chosen.estimated ? text + fmt::format("{}\n", simulation::estimate_note) : text;
  } catch (const Error& error) {
    return text + fmt::format("not simulated: {}\n", error.what());
  }
}

}  // namespace

std::string Impl::predict(const Call& call) {
  std::string text = explain(call);
  if (group.size == 1) return text;
  if (!world) {
    world = with_others([&] {
      // Who calls something else learns of that here, not at its deadline.
      run({.operation = Operation::barrier, .within = Within::predict});
      return topology::exchange(group.rank, topology::this_place(),
                                [&](std::span<const std::byte> mine) { return exchange(mine); });
    });
  }
  text += "by the topology\n" +
          topology::describe(*world, topology::kinds_of_pairs(*world, {.memory = topology::Memory::cpu}));
  const auto collective = collective_of(call.operation);
  if (!collective) return text;
  const auto plan = *find_plan(call, admit_unmade(call)).plan;
  const Planner::Setting& setting = planner->setting();
  try {
    const Picture picture = picture_of(setting, *collective, call);
    if (has_counts(call))
      text += fmt::format("blocks are taken to be equal, {} bytes in the larger buffer\n",
                          picture.question.bytes);
    text += "the simulator, with constants " + picture.constants + "\n" +
            simulated(picture, *plan, setting.node_size);
  } catch (const Error& error) {
    text += std::string("not simulated: ") + error.what() + "\n";
  }
  return text;
}

}  // namespace tutti::detail
