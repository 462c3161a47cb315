#include "../../bench/peers/core_speed.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

namespace {

/// One of several ranks, whose slowest core is as fast as it is told.
class Told final : public bench::Backend {
 public:
  explicit Told(std::vector<double> steps) : steps_(std::move(steps)) {}
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 2; }
  void barrier() override {}
  double max(double /*value*/) override { return steps_.at(asked_++); }
  std::function<void()> prepare(const bench::Call&, float*, float*) override { return {}; }

 private:
  std::vector<double> steps_;
  std::size_t asked_ = 0;
};

std::vector<double> seconds(const std::vector<bench::Batch>& batches) {
  std::vector<double> all;
  all.reserve(batches.size());
  for (const bench::Batch& batch : batches) all.push_back(batch.seconds);
  return all;
}

TEST(CoreSpeed, BatchesOfSlowCoresDoNotCountWhereOthersAreEnough) {
  Told backend({0.6});
  bench::CoreSpeed cores(backend);
  EXPECT_EQ(cores.step(), 0.6);
  const std::vector<bench::Batch> batches{{5, 1.1}, {1, 0.6}, {6, 0.8}, {2, 0.65}, {3, 0.62}};
  EXPECT_EQ(cores.undisturbed(batches), 3U);
  EXPECT_EQ(seconds(cores.that_count(batches, 3)), (std::vector<double>{1, 3, 2}));
  EXPECT_EQ(seconds(cores.that_count(batches, 4)), (std::vector<double>{1, 3, 2, 6}));
  EXPECT_EQ(cores.that_count(batches, 9).size(), 5U);
}

TEST(CoreSpeed, ComparesWithTheBestThatWasSeen) {
  Told backend({1.2, 0.6, 1.1});
  bench::CoreSpeed cores(backend);
  const std::vector<bench::Batch> batches{{1, 1.2}};
  cores.step();
  EXPECT_EQ(cores.undisturbed(batches), 1U);
  cores.step();
  EXPECT_EQ(cores.undisturbed(batches), 0U);
  cores.step();
  EXPECT_EQ(cores.undisturbed(batches), 0U);
}

TEST(CoreSpeed, AStepTakesTime) {
  const double step = bench::step_nanoseconds();
  EXPECT_GT(step, 0);
  EXPECT_LT(step, 1e6);
}

}  // namespace
