#include "simulation/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

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

// Where a buffer is small for its chunks, larger pieces change nothing.
std::vector<std::size_t> pieces_of(const Network& network, const Question& question,
                                   const Algorithm& algorithm) {
  if (question.piece != 0) return {question.piece};
  const bool few_chunks = algorithm.name == "hierarchical_tree" || algorithm.name == "double_tree";
  std::vector<std::size_t> pieces;
  for (const std::size_t piece : {64 * KiB, 256 * KiB, 1024 * KiB}) {
    if (!pieces.empty() && !few_chunks &&
        question.bytes / static_cast<std::size_t>(network.ranks) < pieces.back() / 4)
      break;
    pieces.push_back(piece);
  }
  return pieces;
}

// Of equals, the one that comes first in algorithms().
bool comes_first(const Candidate& a, const Candidate& b) {
  return std::tuple(a.result.seconds, a.algorithm, a.piece) <
         std::tuple(b.result.seconds, b.algorithm, b.piece);
}

// Above it, nobody wants to know: the two fastest, and the best by another algorithm, are below.
double limit_of(const std::vector<Candidate>& ranked, bool one_algorithm) {
  const auto next = std::find_if(ranked.begin(), ranked.end(), [&](const Candidate& candidate) {
    return one_algorithm ? &candidate != &ranked[0] : candidate.algorithm != ranked[0].algorithm;
  });
  return next == ranked.end() ? std::numeric_limits<double>::infinity() : next->result.seconds;
}

}  // namespace

std::vector<Candidate> candidates(const Network& network, const Question& question,
                                  std::vector<LeftOut>* left_out) {
  const bool everybody = network.ranks <= everybody_up_to || network.processor.multicasts;
  auto algorithms = wanted(network, question);
  // Those made for nodes are simulated soon, and leave little time to the others.
  std::stable_partition(algorithms.begin(), algorithms.end(),
                        [](const Algorithm* algorithm) { return algorithm->by_nodes != nullptr; });
  std::vector<Candidate> ranked;
  for (const Algorithm* algorithm : algorithms) {
    const auto make = [&] { return algorithm->make(network.ranks, 0, network.node_size); };
    std::optional<Alike> alike;
    if (!everybody) alike.emplace(make, network);
    for (const std::size_t piece : pieces_of(network, question, *algorithm)) {
      const Workload workload{.collective = question.collective,
                              .bytes = question.bytes,
                              .type = question.type,
                              .piece = piece,
                              .views = algorithm->views};
      Candidate candidate{algorithm, piece,
                          alike ? alike->run(workload, limit_of(ranked, algorithms.size() == 1))
                                : simulate(make(), network, workload)};
      if (candidate.result.finished)
        ranked.insert(std::upper_bound(ranked.begin(), ranked.end(), candidate, comes_first),
                      std::move(candidate));
      else if (left_out != nullptr)
        left_out->push_back({algorithm, piece, candidate.result.seconds});
    }
  }
  return ranked;
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
