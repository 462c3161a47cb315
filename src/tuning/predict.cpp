#include "tuning/predict.hpp"

#include <algorithm>

#include "transport/shm/layout.hpp"
#include "transport/tcp/frame.hpp"
#include "transport/verbs/options.hpp"
#include "tuning/pieces.hpp"

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
  const std::size_t network = scene.transport == "verbs" ? transport::verbs::VerbsOptions().message_bytes
                                                         : transport::tcp::max_message;
  if (scene.transport != "shm" && scene.host_size == 1) return network;
  const std::size_t shared =
      transport::shm::Layout(scene.transport == "shm" ? scene.ranks : scene.host_size).max_message();
  return scene.transport == "shm" ? shared : std::min(shared, network);
}

namespace {

const Point& with_factors(const Scene& scene, const Costs& costs) {
  return scene.transport == "shm" ? costs.inside : costs.between;
}

}  // namespace

simulation::Result simulate(const Question& question, const Algorithm& algorithm, const Costs& costs,
                            int calls) {
  const Scene& scene = question.scene;
  // Of large ones enough that they begin to run into each other.
  constexpr std::size_t large = std::size_t{1} << 20U;
  constexpr int enough = 12;
  if (calls == 0) calls = enough;
  if (calls > 2 && question.bytes >= large) calls = 2;
  return simulation::simulate(
      algorithm.make(scene.ranks, 0, scene.host_size), network_of(scene, costs),
      {.collective = question.collective,
       .bytes = question.bytes,
       .piece = piece(question.collective, question.bytes, scene.ranks, scene.transport),
       .max_message = max_message(scene),
       .views = algorithm.views,
       .calls = calls});
}

Prediction predict(const Question& question, const Algorithm& algorithm, const Costs& costs, int calls) {
  const bool crowded = costs.crowd > 1;
  const simulation::Result result = simulate(question, algorithm, costs, crowded ? 1 : calls);
  const double seconds = crowded ? simulation::crowded(result, costs.crowd) : result.steady.total();
  return {seconds * with_factors(question.scene, costs).factor(algorithm), result.events};
}

simulation::Question candidates_for(const Question& question, const Costs& costs) {
  return {.collective = question.collective,
          .bytes = question.bytes,
          .max_message = max_message(question.scene),
          .crowd = costs.crowd,
          .factor = [point = with_factors(question.scene, costs)](const Algorithm& algorithm) {
            return point.factor(algorithm);
          }};
}

}  // namespace tutti::tuning
