// Tuned constants and the simulator: what each algorithm takes.
#include <algorithm>

#include "transport/shm/layout.hpp"
#include "transport/tcp/frame.hpp"
#include "tuning/decide.hpp"
#include "tuning/pieces.hpp"
#include "tuning/simulated.hpp"

namespace tutti::tuning {

simulation::Network network_of(const Scene& scene, const Costs& costs) {
  if (scene.transport == "shm") return simulation::host_network(scene.ranks, costs.inside.costs);
  return simulation::hosts_network({.ranks = scene.ranks,
                                    .size = scene.host_size,
                                    .inside = costs.inside.costs,
                                    .between = costs.between.costs,
                                    .rdma = scene.transport == "verbs",
                                    .port = scene.port});
}

std::size_t max_message(const Scene& scene) {
  constexpr std::size_t verbs = std::size_t{128} << 10U;  // VerbsOptions::message_bytes by default
  const std::size_t network = scene.transport == "verbs" ? verbs : transport::tcp::max_message;
  if (scene.transport != "shm" && scene.host_size == 1) return network;
  const std::size_t shared =
      transport::shm::Layout(scene.transport == "shm" ? scene.ranks : scene.host_size).max_message();
  return scene.transport == "shm" ? shared : std::min(shared, network);
}

simulation::Result simulated(const Question& question, const Algorithm& algorithm, const Costs& costs,
                             int calls) {
  // Of large ones enough that they begin to run into each other.
  constexpr std::size_t large = std::size_t{1} << 20U;
  const Scene& scene = question.scene;
  const bool shared = scene.transport == "shm";
  return simulation::simulate(algorithm.make(scene.ranks, 0, scene.host_size), network_of(scene, costs),
                              {.collective = question.collective,
                               .bytes = question.bytes,
                               .piece = piece(question.collective, question.bytes, scene.ranks, shared),
                               .max_message = max_message(scene),
                               .views = !shared && algorithm.views,
                               .calls = question.bytes >= large ? 2
                                        : calls != 0            ? calls
                                                                : 12});
}

Simulated simulate(const Question& question, const Algorithm& algorithm, const Costs& costs, int calls) {
  const simulation::Result result = simulated(question, algorithm, costs, calls);
  const Point& factors = question.scene.transport == "shm" ? costs.inside : costs.between;
  return {result.steady.total() * factors.factor(algorithm), result.events};
}

double predict(const Question& question, const Algorithm& algorithm, const Costs& costs) {
  return simulate(question, algorithm, costs).seconds;
}

}  // namespace tutti::tuning
