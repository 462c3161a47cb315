// The fit finds constants by which the simulator gives the times that were measured.
#include "tuning/fit.hpp"
#include "tuning/predict.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tutti::tuning {
namespace {

using simulation::HostCosts;

const HostCosts truth{
    .call = 30e-9, .alpha = 200e-9, .overhead = 90e-9, .step = 10e-9, .copy = 1 / 6e9, .fold = 1 / 12e9};

Costs inside(const Point& point) { return {.inside = point, .between = {}}; }

std::vector<Sample> samples_of(int ranks, std::size_t bytes) {
  std::vector<Sample> samples;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.one_sided || algorithm.by_nodes != nullptr || algorithm.collective == Collective::barrier)
      continue;
    const Question question{{"shm", ranks}, algorithm.collective, bytes};
    samples.push_back({question, std::string(algorithm.name),
                       predict(question, algorithm, inside({.bytes = bytes, .costs = truth})).seconds});
  }
  return samples;
}

class Fit : public testing::TestWithParam<std::pair<int, std::size_t>> {};

TEST_P(Fit, FindsTheTimesAgain) {
  const auto [ranks, bytes] = GetParam();
  const std::vector<Sample> samples = samples_of(ranks, bytes);
  const HostCosts found = fit(samples, {});
  for (const Sample& sample : samples) {
    const Algorithm& algorithm = *find_algorithm(sample.question.collective, sample.algorithm);
    EXPECT_NEAR(predict(sample.question, algorithm, inside({.bytes = bytes, .costs = found})).seconds /
                    sample.seconds,
                1, 0.02)
        << sample.algorithm;
  }
}

TEST_P(Fit, FindsWhatMatters) {
  const auto [ranks, bytes] = GetParam();
  const HostCosts found = fit(samples_of(ranks, bytes), {});
  if (bytes >= 1 << 20) {
    EXPECT_NEAR(found.copy / truth.copy, 1, 0.1);
    EXPECT_NEAR(found.fold / truth.fold, 1, 0.1);
  } else {
    EXPECT_NEAR(found.alpha / truth.alpha, 1, 0.1);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Fit,
                         testing::Values(std::pair{2, 8}, std::pair{4, 512}, std::pair{3, 1 << 14},
                                         std::pair{2, 1 << 20}, std::pair{8, 1 << 22}),
                         [](const auto& c) {
                           return std::to_string(c.param.first) + "ranks_" + std::to_string(c.param.second) +
                                  "bytes";
                         });

TEST(Fit, WhatSamplesDoNotTellStaysAsItWas) {
  // Nothing is folded.
  const Question question{{"shm", 2}, Collective::all_gather, 1 << 20};
  const Algorithm& algorithm = *find_algorithm(Collective::all_gather, "all_pairs");
  const HostCosts found =
      fit({{{question, "all_pairs", predict(question, algorithm, inside({.costs = truth})).seconds}}}, {});
  EXPECT_DOUBLE_EQ(found.fold, HostCosts{}.fold);
}

TEST(Fit, KeepsWhatTheModelDoesNotKnowAsAFactor) {
  std::vector<Sample> samples;
  for (const std::size_t bytes : {1UL << 10U, 1UL << 12U, 1UL << 14U, 1UL << 16U, 1UL << 18U}) {
    for (Sample& sample : samples_of(4, bytes)) {
      if (sample.algorithm == "ring") sample.seconds *= 1.5;
      samples.push_back(std::move(sample));
    }
  }
  // A disturbed measurement.
  std::ranges::find_if(samples, [](const Sample& s) {
    return s.question.bytes == 1UL << 14U && s.algorithm == "two_shot";
  })->seconds *= 20;
  const Curve curve = fit_curve(samples);
  ASSERT_EQ(curve.points.size(), 5U);
  for (const Sample& sample : samples) {
    if (sample.question.bytes == 1UL << 14U) continue;
    const Algorithm& algorithm = *find_algorithm(sample.question.collective, sample.algorithm);
    EXPECT_NEAR(
        predict(sample.question, algorithm, inside(curve.at(sample.question.bytes))).seconds / sample.seconds,
        1, 0.15)
        << key_of(algorithm) << " " << sample.question.bytes;
  }
  const Question disturbed{{"shm", 4}, Collective::all_reduce, 1UL << 14U};
  EXPECT_LT(
      predict(disturbed, *find_algorithm(Collective::all_reduce, "two_shot"), inside(curve.at(1UL << 14U)))
          .seconds,
      5 * predict(disturbed, *find_algorithm(Collective::all_reduce, "two_shot"), inside({.costs = truth}))
              .seconds);
}

// Reductions to one rank that follow each other overlap.
TEST(Fit, ConstantsComeFromCallsThatDoNotOverlap) {
  constexpr std::size_t bytes = 1UL << 12U;
  std::vector<Sample> samples = samples_of(4, bytes);
  const Curve apart = fit_curve(samples);
  for (Sample& sample : samples)
    if (sample.question.collective == Collective::reduce) sample.seconds /= 4;
  const Curve overlapping = fit_curve(samples);
  for (const auto constant : simulation::host_costs)
    EXPECT_EQ(overlapping.points[0].costs.*constant, apart.points[0].costs.*constant);
  for (const auto& [key, factor] : apart.points[0].factors) {
    const bool overlaps = key.starts_with("reduce ");
    EXPECT_NEAR(overlapping.points[0].factors.at(key) / factor, overlaps ? 0.25 : 1, 1e-9) << key;
  }
}

}  // namespace
}  // namespace tutti::tuning
