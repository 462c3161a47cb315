#include "simulation/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include <tutti/error.hpp>

namespace tutti::simulation {

namespace {

constexpr std::size_t KiB = 1024;

std::vector<const Algorithm*> wanted(const Network& network, const Question& question) {
  std::vector<const Algorithm*> found;
  if (!question.algorithm.empty()) {
    const Algorithm* one = find_algorithm(question.collective, question.algorithm);
    if (one == nullptr || one->one_sided)
      throw Error(ErrorCode::invalid_argument, fmt::format("{} has no algorithm \"{}\" that sends messages",
                                                           name(question.collective), question.algorithm));
    return {one};
  }
  for (const Algorithm& one : algorithms()) {
    if (one.collective != question.collective || one.one_sided) continue;
    if (one.by_nodes == nullptr && network.ranks >= flat_up_to) continue;
    if (one.by_nodes != nullptr && network.node_size == 0) continue;
    found.push_back(&one);
  }
  // Where nothing was written for nodes, ten thousand ranks are served by what there is.
  for (const Algorithm& one : algorithms())
    if (found.empty() && one.collective == question.collective && !one.one_sided) return {&one};
  return found;
}

Result simulated(const Network& network, const Question& question, const Algorithm& algorithm,
                 std::size_t piece) {
  const Workload workload{.collective = question.collective,
                          .bytes = question.bytes,
                          .type = question.type,
                          .piece = piece,
                          .views = algorithm.views};
  const auto make = [&] { return algorithm.make(network.ranks, 0, network.node_size); };
  return network.ranks <= everybody_up_to ? simulate(make(), network, workload)
                                          : simulate_alike(make, network, workload);
}

}  // namespace

std::vector<Candidate> candidates(const Network& network, const Question& question) {
  std::vector<Candidate> all;
  std::vector<std::size_t> pieces = {64 * KiB, 256 * KiB, 1024 * KiB};
  if (question.piece != 0) pieces = {question.piece};
  for (const Algorithm* algorithm : wanted(network, question)) {
    std::size_t before = 0;
    for (const std::size_t piece : pieces) {
      // Where a buffer is small for its chunks, larger pieces change nothing.
      if (before != 0 && question.bytes / static_cast<std::size_t>(network.ranks) < before / 4 &&
          algorithm->name != "hierarchical_tree" && algorithm->name != "double_tree")
        break;
      before = piece;
      all.push_back({algorithm, piece, simulated(network, question, *algorithm, piece)});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.result.seconds < b.result.seconds;
  });
  return all;
}

int queue_pairs_per_adapter(const Network& network, const Result& result) {
  if (!network.adapter) return 0;
  std::map<int, int> sharing;
  for (Rank r = 0; r < network.ranks; ++r) ++sharing[network.adapter(r)];
  int most = 0;
  for (std::size_t i = 0; i < result.representatives.size(); ++i)
    most = std::max(most, result.ranks[i].queue_pairs * sharing[network.adapter(result.representatives[i])]);
  return most;
}

}  // namespace tutti::simulation
