// Tuned constants and the simulator: what each algorithm takes.
#include <algorithm>

#include "transport/shm/layout.hpp"
#include "transport/tcp/frame.hpp"
#include "tuning/pieces.hpp"
#include "tuning/simulated.hpp"
#include "tuning/tuning.hpp"

namespace tutti::tuning {

simulation::Result simulated(const Question& question, const Algorithm& algorithm,
                             const simulation::HostCosts& costs) {
  // Enough that calls run into each other as far as their credits let them; of large ones, that they begin
  // to.
  constexpr std::size_t large = std::size_t{1} << 20U;
  const bool shared = question.transport == "shm";
  simulation::Network network = simulation::host_network(question.ranks, costs);
  network.processor.multicasts = shared;
  return simulation::simulate(algorithm.make(question.ranks, 0), network,
                              {.collective = question.collective,
                               .bytes = question.bytes,
                               .piece = piece(question.collective, question.bytes, question.ranks, shared),
                               .max_message = shared ? transport::shm::Layout(question.ranks).max_message()
                                                     : transport::tcp::max_message,
                               .views = !shared && algorithm.views,
                               .calls = question.bytes >= large ? 2 : 12});
}

double predict(const Question& question, const Algorithm& algorithm, const Point& costs) {
  return simulated(question, algorithm, costs.costs).steady.total() * costs.factor(algorithm);
}

std::vector<Ranked> rank_algorithms(const Question& question, const Point& costs) {
  std::vector<Ranked> all;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.collective == question.collective && !algorithm.one_sided && algorithm.by_nodes == nullptr)
      all.push_back({&algorithm, predict(question, algorithm, costs)});
  std::ranges::stable_sort(all, {}, &Ranked::seconds);
  return all;
}

}  // namespace tutti::tuning
