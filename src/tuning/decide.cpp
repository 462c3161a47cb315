#include "tuning/decide.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "tuning/predict.hpp"

namespace tutti::tuning {

namespace {

// The order in which operations are decided: that in which they are asked for most.
constexpr std::array operations = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                   Collective::all_to_all, Collective::broadcast,  Collective::reduce,
                                   Collective::gather,     Collective::scatter,    Collective::barrier};

/// Simulated steps that deciding may take, about 0.1 us each. All algorithms but trees and rings have
/// messages between all pairs of ranks.
constexpr std::uint64_t effort(int ranks) {
  return 30'000 + 800 * static_cast<std::uint64_t>(ranks) * static_cast<std::uint64_t>(ranks);
}

/// To a single rank it sends halves, which over TCP takes longer than the whole
/// (docs/experiments-devices.md).
bool sends_halves(const Algorithm& one, const Scene& scene) {
  return scene.ranks == 2 && scene.transport == "tcp" && one.name == "scatter_all_gather";
}

std::vector<const Algorithm*> candidates(Collective collective, const Scene& scene) {
  const bool nodes = scene.transport != "shm" && scene.host_size > 1 && scene.host_size < scene.ranks;
  std::vector<const Algorithm*> found;
  for (const Algorithm& one : algorithms())
    if (one.collective == collective && !one.one_sided && (one.by_nodes == nullptr || nodes) &&
        !sends_halves(one, scene))
      found.push_back(&one);
  return found;
}

Scene within_reach(Scene scene) {
  if (scene.ranks <= most_simulated) return scene;
  scene.host_size = std::min(scene.host_size, most_simulated / 2);
  scene.ranks = most_simulated / scene.host_size * scene.host_size;
  return scene;
}

class Decision {
 public:
  Decision(const Tuning& tuning, const Scene& scene, Choices known)
      : tuning_(tuning), scene_(scene), simulated_(within_reach(scene)), found_(std::move(known)) {}

  void decide(Collective collective, int sizes) {
    if (found_.has(collective, sizes)) return;
    const auto all = candidates(collective, scene_);
    const Algorithm* best = all.at(0);
    if (all.size() > 1) {
      const Question question{simulated_, collective, largest_of(sizes)};
      const Costs costs = tuning_.costs(scene_, question.bytes);
      double least = 0;
      for (const Algorithm* one : all) {
        const Prediction result = predict(question, *one, costs, calls());
        spent_ += result.events;
        if (one != all[0] && result.seconds >= least) continue;
        best = one;
        least = result.seconds;
      }
    }
    found_.keep(collective, sizes, best);
  }

  /// Between two decided classes that differ: that in the middle, until they are neighbours.
  void refine(Collective collective, int low, int high) {
    if (!may_go_on() || high - low < 2 ||
        found_.of(collective, largest_of(low)) == found_.of(collective, largest_of(high)))
      return;
    const int middle = (low + high) / 2;
    decide(collective, middle);
    refine(collective, low, middle);
    refine(collective, middle, high);
  }

  [[nodiscard]] bool may_go_on() const { return spent_ < effort(simulated_.ranks); }
  [[nodiscard]] Choices& found() { return found_; }

 private:
  /// In a row: a root runs ahead of the others. Of many ranks, that the last ones are served at all counts
  /// more.
  [[nodiscard]] int calls() const {
    constexpr int few = 8;
    return simulated_.ranks <= few ? 4 : 1;
  }

  const Tuning& tuning_;
  Scene scene_, simulated_;
  Choices found_;
  std::uint64_t spent_ = 0;
};

}  // namespace

std::vector<Ranked> rank_algorithms(const Question& question, const Costs& costs) {
  std::vector<Ranked> all;
  for (const Algorithm* algorithm : candidates(question.collective, question.scene))
    all.push_back({algorithm, predict(question, *algorithm, costs).seconds});
  std::ranges::stable_sort(all, {}, &Ranked::seconds);
  return all;
}

Choices decide(const Tuning& tuning, const Scene& scene, Choices known) {
  Decision decision(tuning, scene, std::move(known));
  // 4 KiB, 256 KiB, 64 B, 1 MiB, 16 KiB, 8 B, 64 KiB, 4 MiB; then ever larger ones, which cost most.
  constexpr std::array order = {12, 18, 6, 20, 14, 3, 16, 22, 24, 26};
  for (const int sizes : order)
    for (const Collective collective : operations)
      if (sizes == order[0] || decision.may_go_on()) decision.decide(collective, sizes);
  for (const Collective collective : operations) {
    std::vector<int> decided;
    for (const auto& [key, algorithm] : decision.found().all())
      if (key.first == collective) decided.push_back(key.second);
    for (std::size_t i = 1; i < decided.size(); ++i) decision.refine(collective, decided[i - 1], decided[i]);
  }
  return decision.found();
}

Choices decide_all(const Tuning& tuning, const Scene& scene, std::size_t largest) {
  Choices found;
  for (const Collective collective : operations)
    for (int sizes = 0; sizes <= size_class(largest); ++sizes) {
      const Question question{scene, collective, largest_of(sizes)};
      const auto costs = tuning.costs(scene, question.bytes);
      found.keep(collective, sizes, rank_algorithms(question, costs).at(0).algorithm);
    }
  return found;
}

}  // namespace tutti::tuning
