// The fit finds constants by which the simulator gives the times that were measured.
#include "tuning/fit.hpp"

#include <gtest/gtest.h>

namespace tutti::tuning {
namespace {

using simulation::HostCosts;

const HostCosts truth{
    .call = 30e-9, .alpha = 200e-9, .overhead = 90e-9, .step = 10e-9, .copy = 1 / 6e9, .fold = 1 / 12e9};

std::vector<Sample> samples_of(int ranks, std::size_t bytes) {
  std::vector<Sample> samples;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.one_sided || algorithm.by_nodes != nullptr || algorithm.collective == Collective::barrier)
      continue;
    const Question question{"shm", algorithm.collective, ranks, bytes};
    samples.push_back({question, std::string(algorithm.name), predict(question, algorithm, truth)});
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
    EXPECT_NEAR(predict(sample.question, algorithm, found) / sample.seconds, 1, 0.02) << sample.algorithm;
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
  const Question question{"shm", Collective::all_gather, 2, 1 << 20};
  const Algorithm& algorithm = *find_algorithm(Collective::all_gather, "all_pairs");
  const HostCosts found = fit({{{question, "all_pairs", predict(question, algorithm, truth)}}}, {});
  EXPECT_DOUBLE_EQ(found.fold, HostCosts{}.fold);
}

}  // namespace
}  // namespace tutti::tuning
