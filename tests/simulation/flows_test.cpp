#include "simulation/flows.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tutti::simulation {
namespace {

struct Timed {
  int way;
  double time;
};

// Runs until nothing flows.
std::vector<Timed> run(Flows& flows, double now = 0) {
  std::vector<Timed> all;
  std::vector<int> ended;
  for (double next = flows.next(now); std::isfinite(next); next = flows.next(now)) {
    now = next;
    ended.clear();
    flows.end(now, ended);
    for (const int way : ended) all.push_back({way, now});
  }
  return all;
}

TEST(Flows, AloneHasTheNarrowestLink) {
  Flows flows({100, 50, 200}, 0);
  flows.begin(flows.add_way({{0}, {1}, {2}}), 1000, 0);
  const auto all = run(flows);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_DOUBLE_EQ(all[0].time, 20);
  EXPECT_DOUBLE_EQ(flows.busy(1), 20);
}

// Bertsekas and Gallager's example: a long flow and short ones; what the long one cannot use goes to others.
TEST(Flows, ShareByMaxMin) {
  Flows flows({10, 20}, 0);
  const int both = flows.add_way({{0}, {1}}), first = flows.add_way({{0}}), second = flows.add_way({{1}});
  flows.begin(both, 50, 0);     // 5: half of the first link
  flows.begin(first, 50, 0);    // 5
  flows.begin(second, 150, 0);  // 15: the rest of the second link
  const auto all = run(flows);
  ASSERT_EQ(all.size(), 3U);
  for (const Timed& one : all) EXPECT_DOUBLE_EQ(one.time, 10);
}

TEST(Flows, GoFasterWhenOthersEnd) {
  Flows flows({10}, 0);
  const int shorter = flows.add_way({{0}}), longer = flows.add_way({{0}});
  flows.begin(shorter, 10, 0);
  flows.begin(longer, 30, 0);
  const auto all = run(flows);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].way, shorter);
  EXPECT_DOUBLE_EQ(all[0].time, 2);  // at half the rate
  EXPECT_DOUBLE_EQ(all[1].time, 4);  // 10 in the first 2 s, 20 in the next 2
}

TEST(Flows, OfAKindWeighAsMany) {
  Flows flows({12}, 0);
  const int four = flows.add_way({{0, 4}}), two = flows.add_way({{0, 2}});
  flows.begin(four, 10, 0);
  flows.begin(two, 10, 0);
  for (const Timed& one : run(flows)) EXPECT_DOUBLE_EQ(one.time, 5);
}

TEST(Flows, ManyEndInTheOrderOfTheirSizes) {
  Flows flows({1}, 0);
  for (int i = 0; i < 100; ++i) flows.begin(flows.add_way({{0}}), 1 + (i * 37) % 100, 0);
  const auto all = run(flows);
  ASSERT_EQ(all.size(), 100U);
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i - 1].time, all[i].time);
  EXPECT_NEAR(all.back().time, 5050, 1e-6);
  EXPECT_NEAR(flows.busy(0), 5050, 1e-6);
}

// Each of them changes the rates of the others by less than is passed on.
TEST(Flows, OfLittleWeightAddUp) {
  constexpr int small_ones = 500;
  constexpr double bandwidth = 1e6, weight = 4e6, all = weight + 2 * small_ones;
  Flows flows({bandwidth}, 0);
  const int large = flows.add_way({{0, weight}});
  flows.begin(large, 1000, 0);
  for (int i = 0; i < small_ones; ++i) {
    (void)flows.next(0);
    flows.begin(flows.add_way({{0, 2}}), 1000, 0);
  }
  const auto ended = run(flows);
  ASSERT_EQ(ended.size(), 1U + small_ones);
  for (const Timed& one : ended) EXPECT_NEAR(one.time / (1000 * all / bandwidth), 1, 1e-5);
}

// Rates in bytes/s: those on the link that is full first are decided first.
std::vector<double> max_min(std::vector<double> room, const std::vector<std::vector<Crossing>>& ways) {
  std::vector<double> rates(ways.size());
  for (std::size_t decided = 0; decided < ways.size();) {
    std::vector<double> weight(room.size());
    for (std::size_t f = 0; f < ways.size(); ++f)
      for (const Crossing& c : ways[f])
        if (rates[f] == 0) weight[static_cast<std::size_t>(c.link)] += c.weight;
    std::size_t full = room.size();
    for (std::size_t l = 0; l < room.size(); ++l)
      if (weight[l] > 0 && (full == room.size() || room[l] / weight[l] < room[full] / weight[full])) full = l;
    const double level = room[full] / weight[full];
    for (std::size_t f = 0; f < ways.size(); ++f) {
      const bool crosses =
          std::ranges::any_of(ways[f], [&](const Crossing& c) { return c.link == static_cast<int>(full); });
      if (rates[f] != 0 || !crosses) continue;
      rates[f] = level;
      ++decided;
      for (const Crossing& c : ways[f]) room[static_cast<std::size_t>(c.link)] -= c.weight * level;
    }
  }
  return rates;
}

// So many that all links are filled at once: where rates are right, all end at the same time.
TEST(Flows, ManyOnManyLinks) {
  constexpr int links = 60;
  std::mt19937 random(1);
  const auto below = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  std::vector<double> bandwidth(links);
  for (double& each : bandwidth) each = 1 + below(100);
  std::vector<std::vector<Crossing>> ways(400);
  const auto crossing = [&](int first) { return Crossing{first + below(links / 3), 1.0 + below(3)}; };
  for (auto& way : ways) way = {crossing(0), crossing(links / 3), crossing(2 * links / 3)};
  Flows flows(bandwidth, 0);
  const std::vector<double> rates = max_min(bandwidth, ways);
  for (std::size_t f = 0; f < ways.size(); ++f) flows.begin(flows.add_way(ways[f]), rates[f], 0);
  const auto ended = run(flows);
  ASSERT_EQ(ended.size(), ways.size());
  for (const Timed& one : ended) EXPECT_NEAR(one.time, 1, 1e-4);
}

}  // namespace
}  // namespace tutti::simulation
