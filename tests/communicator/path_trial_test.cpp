// Slots or cross-memory attach: measured, decided alike by all ranks, without a difference in the results.
#include "communicator/path_trial.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t calls_of_a_trial = 2 * (PathTrial::settling + PathTrial::counted);

/// One trial on ranks whose calls take `slots[r]` and `attach[r]` nanoseconds; the paths they settle on.
std::vector<Path> settle(Path first, const std::vector<int>& slots, const std::vector<int>& attach) {
  std::vector<PathTrial> ranks(slots.size(), PathTrial(first));
  for (std::uint32_t call = 0; call < PathTrial::first_gap + calls_of_a_trial; ++call)
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const auto turn = ranks[r].next();
      EXPECT_FALSE(turn.decides);
      const int takes = (turn.path == Path::slots ? slots : attach)[r];
      if (turn.timed && takes != 0) ranks[r].record(turn.path, nanoseconds(takes));
    }
  std::vector<PathTrial::Times> times;
  for (auto& rank : ranks) {
    EXPECT_TRUE(rank.next().decides);
    times.push_back(rank.times());
  }
  std::vector<Path> chosen;
  for (auto& rank : ranks) {
    rank.decide(times);
    chosen.push_back(rank.path());
    EXPECT_EQ(rank.next().path, rank.path());
  }
  return chosen;
}

using testing::Each;

TEST(PathTrial, TakesTheFaster) {
  for (const Path first : {Path::slots, Path::attach}) {
    EXPECT_THAT(settle(first, {900, 910}, {700, 710}), Each(Path::attach));
    EXPECT_THAT(settle(first, {700, 710}, {900, 910}), Each(Path::slots));
  }
}

TEST(PathTrial, StaysWhereTheDifferenceIsNoise) {
  EXPECT_THAT(settle(Path::slots, {1000}, {990}), Each(Path::slots));
  EXPECT_THAT(settle(Path::attach, {990}, {1000}), Each(Path::attach));
}

TEST(PathTrial, WhoWaitsDoesNotHideTheDifference) {
  EXPECT_THAT(settle(Path::slots, {9000, 500}, {8700, 200}), Each(Path::attach));  // rank 0 comes early
  EXPECT_THAT(settle(Path::slots, {100, 500}, {400, 400}), Each(Path::slots));     // the root runs ahead
}

TEST(PathTrial, RanksThatTimedOnePathOnlyDoNotCount) {
  EXPECT_THAT(settle(Path::slots, {500, 0}, {400, 900}), Each(Path::attach));
}

TEST(PathTrial, StaysWhenNobodyTimedACall) {
  EXPECT_THAT(settle(Path::attach, {0, 0}, {0, 0}), Each(Path::attach));
  EXPECT_THAT(settle(Path::slots, {500, 0}, {0, 0}), Each(Path::slots));
}

TEST(PathTrial, IsRepeatedEverMoreRarely) {
  PathTrial trial(Path::slots);
  std::vector<std::uint32_t> decisions;
  for (std::uint32_t call = 0; call < 100'000; ++call)
    if (trial.next().decides) decisions.push_back(call);
  ASSERT_GT(decisions.size(), 10U);
  EXPECT_EQ(decisions[0], PathTrial::first_gap + calls_of_a_trial);
  for (std::size_t i = 1; i < decisions.size(); ++i) {
    const std::uint32_t gap =
        std::min(PathTrial::first_gap << std::min<std::size_t>(2 * i, 16), PathTrial::longest_gap);
    EXPECT_EQ(decisions[i] - decisions[i - 1], calls_of_a_trial + 1 + gap);
  }
}

TEST(PathTrial, ResultsAreTheSameBitForBitOnEitherPath) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    constexpr std::size_t count = 800'011;  // several pieces of each block
    std::mt19937 random(static_cast<unsigned>(comm.rank()));
    std::uniform_real_distribution<float> any(-1.0F, 1.0F);
    std::vector<float> in(count), out(count), first(count);
    for (float& x : in) x = any(random);
    for (std::uint32_t call = 0; call < PathTrial::first_gap + calls_of_a_trial + 3; ++call) {
      std::fill(out.begin(), out.end(), 0.0F);  // what is read too early is not right by chance
      comm.all_reduce(std::span<const float>(in), std::span(out));
      if (call == 0) first = out;
      ASSERT_EQ(std::memcmp(out.data(), first.data(), count * sizeof(float)), 0) << call;
    }
    const std::string why = comm.explain({.operation = Operation::all_reduce,
                                          .type = DataType::float32,
                                          .in = in.data(),
                                          .out = out.data(),
                                          .count = count});
    if (why.find("plain memory") == std::string::npos) GTEST_SKIP() << "no cross-memory attach here";
    EXPECT_NE(why.find("(measured: slots "), std::string::npos) << why;
    EXPECT_GT(comm.stats().bytes_direct, 0U) << "attach was not tried";
  });
}

}  // namespace
}  // namespace tutti::test
