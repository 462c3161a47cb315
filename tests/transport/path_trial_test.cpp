// Slots or peers' memory: measured, decided alike by all ranks.
#include "transport/shm/path_trial.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <vector>

namespace tutti::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr PathTrial::Cadence usual = PathTrial::usual, of_long_calls = PathTrial::of_long_calls;

/// Nanoseconds that the calls of each rank take by a path; 0: nobody looked.
using Takes = std::map<Path, std::vector<int>>;

/// One trial of the paths in `takes`; the paths that ranks settle on.
std::vector<Path> settle_among(Path first, const Takes& takes, const PathTrial::Cadence& cadence = usual) {
  Paths paths;
  for (const auto& [path, times] : takes) paths.add(path);
  std::vector<PathTrial> ranks(takes.at(first).size(), PathTrial(paths, cadence));
  const std::uint32_t last = cadence.first_gap + cadence.calls(paths.size());
  for (std::uint32_t call = 0; call <= last; ++call) {
    std::vector<PathTrial::Times> times;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const auto turn = ranks[r].next(first);
      EXPECT_TRUE(turn.decides || call < last);
      if (turn.decides) times.push_back(ranks[r].times());
      const int time = takes.at(turn.path)[r];
      if (turn.timed && time != 0) ranks[r].record(turn.path, nanoseconds(time));
    }
    if (!times.empty())
      for (auto& rank : ranks) rank.decide(times);
  }
  std::vector<Path> chosen;
  for (auto& rank : ranks) {
    chosen.push_back(rank.path(first));
    EXPECT_EQ(rank.next(first).path, rank.path(first));
  }
  return chosen;
}

std::vector<Path> settle(Path first, const std::vector<int>& slots, const std::vector<int>& direct,
                         const PathTrial::Cadence& cadence = usual) {
  return settle_among(first, {{Path::slots, slots}, {Path::direct, direct}}, cadence);
}

using testing::Each;

TEST(PathTrial, TakesTheFaster) {
  for (const Path first : {Path::slots, Path::direct}) {
    EXPECT_THAT(settle(first, {900, 910}, {700, 710}), Each(Path::direct));
    EXPECT_THAT(settle(first, {700, 710}, {900, 910}), Each(Path::slots));
  }
}

TEST(PathTrial, TakesTheFastestOfThree) {
  for (const Path first : all_paths)
    for (const Path fastest : all_paths) {
      Takes takes;
      for (const Path path : all_paths)
        takes[path] = path == fastest ? std::vector{600, 610} : std::vector{900, 910};
      for (const auto& cadence : {usual, of_long_calls})
        EXPECT_THAT(settle_among(first, takes, cadence), Each(fastest));
    }
}

TEST(PathTrial, WhatIsNotTriedIsNotTaken) {
  EXPECT_THAT(settle_among(Path::slots, {{Path::slots, {900}}, {Path::past_caches, {700}}}),
              Each(Path::past_caches));
  EXPECT_THAT(settle_among(Path::past_caches, {{Path::slots, {900}}, {Path::past_caches, {700}}}),
              Each(Path::past_caches));
}

TEST(PathTrial, LeavesWhatWasFarFromTheFastestOutOfEveryOtherTrial) {
  const auto& cadence = of_long_calls;
  PathTrial trial({Path::slots, Path::past_caches, Path::direct}, cadence);
  std::map<Path, int> takes{{Path::slots, 900}, {Path::past_caches, 1000}, {Path::direct, 2000}};
  const auto paths_of_next_trial = [&] {
    std::vector<Path> paths;
    PathTrial::Turn turn;
    while (!(turn = trial.next(Path::slots)).decides) {
      if (!turn.timed) continue;
      if (paths.empty() || paths.back() != turn.path) paths.push_back(turn.path);
      trial.record(turn.path, nanoseconds(takes[turn.path]));
    }
    trial.decide(std::vector{trial.times()});
    return paths;
  };
  const std::vector all{Path::slots, Path::past_caches, Path::direct}, near{Path::slots, Path::past_caches};
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(paths_of_next_trial(), all);
    EXPECT_EQ(paths_of_next_trial(), near);
    EXPECT_EQ(trial.decided_by()[static_cast<std::size_t>(Path::direct)], 2000U);
  }
  takes[Path::direct] = 300;
  EXPECT_EQ(paths_of_next_trial(), all);
  EXPECT_EQ(trial.path(Path::slots), Path::direct);
  const std::vector direct_first{Path::direct, Path::slots, Path::past_caches};
  EXPECT_EQ(paths_of_next_trial(), direct_first) << "a trial without rivals is left out";
}

TEST(PathTrial, StaysWhereTheDifferenceIsNoise) {
  EXPECT_THAT(settle(Path::slots, {1000}, {990}), Each(Path::slots));
  EXPECT_THAT(settle(Path::direct, {990}, {1000}), Each(Path::direct));
}

TEST(PathTrial, OfLongCallsTakesFewOfThem) {
  EXPECT_LE(of_long_calls.first_gap + of_long_calls.calls(3), 20U);
  EXPECT_THAT(settle(Path::slots, {900, 910}, {700, 710}, of_long_calls), Each(Path::direct));
  EXPECT_THAT(settle(Path::direct, {700, 710}, {900, 910}, of_long_calls), Each(Path::slots));
  EXPECT_THAT(settle(Path::slots, {1000}, {940}, of_long_calls), Each(Path::slots));
}

TEST(PathTrial, WhoWaitsDoesNotHideTheDifference) {
  EXPECT_THAT(settle(Path::slots, {9000, 500}, {8700, 200}), Each(Path::direct));  // rank 0 comes early
  EXPECT_THAT(settle(Path::slots, {100, 500}, {400, 400}), Each(Path::slots));     // the root runs ahead
}

// Its first calls find in the caches what those by the other path left there.
TEST(PathTrial, OfLongCallsAPathCountsOnceCachesHoldWhatItNeeds) {
  const Paths both{Path::slots, Path::direct};
  for (const Path present : {Path::slots, Path::direct}) {
    PathTrial trial(both, of_long_calls);
    Path last = present;
    int in_a_row = 0;
    PathTrial::Turn turn;
    while (!(turn = trial.next(present)).decides) {
      in_a_row = turn.path == last ? in_a_row + 1 : 1;
      last = turn.path;
      const int settled = turn.path == Path::slots ? 2000 : 1500;
      if (turn.timed) trial.record(turn.path, nanoseconds(in_a_row > 3 ? settled : 2 * settled));
    }
    trial.decide(std::vector{trial.times()});
    EXPECT_EQ(trial.path(present), Path::direct);
    EXPECT_EQ(trial.decided_by()[static_cast<std::size_t>(Path::direct)], 1500U);
  }
}

// Between two long calls so much can happen that only who waits for nobody tells.
TEST(PathTrial, OfLongCallsTheLastRankToComeCounts) {
  EXPECT_THAT(settle(Path::slots, {24'000, 700}, {900, 910}, of_long_calls), Each(Path::slots));
  EXPECT_THAT(settle(Path::direct, {24'000, 700}, {900, 910}, of_long_calls), Each(Path::slots));
}

/// What a trial of `rank_takes`, nanoseconds of each rank's calls in turn, finds the paths to cost.
PathTrial::Costs costs_of(const std::vector<std::map<Path, std::vector<int>>>& rank_takes) {
  std::vector<PathTrial> ranks(rank_takes.size(), PathTrial({Path::slots, Path::direct}));
  std::vector<std::map<Path, std::size_t>> timed(ranks.size());
  for (int decisions = 0; decisions < 2;) {
    std::vector<PathTrial::Times> times;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const auto turn = ranks[r].next(Path::direct);
      if (turn.timed)
        ranks[r].record(turn.path, nanoseconds(rank_takes[r].at(turn.path)[timed[r][turn.path]++]));
      if (turn.decides) times.push_back(ranks[r].times());
    }
    if (times.empty()) continue;
    for (auto& rank : ranks) rank.decide(times);
    for (auto& calls : timed) calls[Path::slots] = 0;  // the first one was a glance
    ++decisions;
  }
  return ranks[0].decided_by();
}

// Ranks that share a processor are ahead in one call and wait in the next.
TEST(PathTrial, TwoCallsInARowTell) {
  const auto costs =
      costs_of({{{Path::slots, {1500, 400, 1500, 9000}}, {Path::direct, {1100, 1100, 1100, 1100}}}});
  EXPECT_EQ(costs[index_of(Path::slots)], 950U);
  EXPECT_EQ(costs[index_of(Path::direct)], 1100U);
}

// Each was quick once, but not at once: the calls took 1200 together, whoever waited.
TEST(PathTrial, OfRanksThatTakeTurnsInWaitingTheSumTells) {
  const auto costs =
      costs_of({{{Path::slots, {400, 600, 2000, 1800}}, {Path::direct, {1100, 1100, 1100, 1100}}},
                {{Path::slots, {2000, 1800, 400, 600}}, {Path::direct, {1100, 1100, 1100, 1100}}}});
  EXPECT_EQ(costs[index_of(Path::slots)], 1200U);
  EXPECT_EQ(costs[index_of(Path::direct)], 1100U);
}

// Whoever is ahead would not work on the next call if that went by another path.
TEST(PathTrial, BehindCallsThatCountComesOneMoreByTheSamePath) {
  for (const Paths paths :
       {Paths{Path::slots, Path::direct}, Paths{Path::slots, Path::past_caches, Path::direct}}) {
    PathTrial trial(paths);
    std::map<Path, int> runs;  // of timed calls, with one more behind
    auto before = trial.next(Path::direct);
    for (int decisions = 0; decisions < 2;) {
      const auto turn = trial.next(Path::direct);
      if (before.timed && !turn.timed && !turn.decides) {
        EXPECT_EQ(turn.path, before.path);
        ++runs[turn.path];
      }
      if (turn.timed) trial.record(turn.path, nanoseconds(1000));
      before = turn;
      if (!turn.decides) continue;
      trial.decide(std::vector{trial.times()});
      ++decisions;
    }
    EXPECT_EQ(runs.size(), paths.size());
    for (const auto& [path, count] : runs) EXPECT_EQ(count, 1) << static_cast<int>(path);
  }
}

TEST(PathTrial, RanksThatTimedOnePathOnlyDoNotCount) {
  EXPECT_THAT(settle(Path::slots, {500, 0}, {400, 900}), Each(Path::direct));
}

TEST(PathTrial, StaysWhenNobodyTimedACall) {
  EXPECT_THAT(settle(Path::direct, {0, 0}, {0, 0}), Each(Path::direct));
  EXPECT_THAT(settle(Path::slots, {500, 0}, {0, 0}), Each(Path::slots));
}

TEST(PathTrial, IsRepeatedEverMoreRarely) {
  for (const auto& cadence : {usual, of_long_calls}) {
    PathTrial trial({Path::slots, Path::direct}, cadence);
    std::vector<std::uint32_t> decisions;
    bool glances = cadence.glances;
    for (std::uint32_t call = 0; call < 100'000; ++call) {
      if (!trial.next(Path::slots).decides) continue;
      if (!glances) decisions.push_back(call);
      glances = !glances && cadence.glances;
    }
    ASSERT_GT(decisions.size(), 10U);
    EXPECT_EQ(decisions[0], cadence.first_gap + cadence.calls(2));
    std::uint32_t gap = cadence.first_gap;
    for (std::size_t i = 1; i < decisions.size(); ++i) {
      gap = std::min(cadence.growth * gap, cadence.longest_gap);
      EXPECT_EQ(decisions[i] - decisions[i - 1], cadence.calls(2) + 1 + gap);
    }
  }
}

TEST(PathTrial, HopelessPathsAreTriedOnce) {
  PathTrial trial({Path::slots, Path::past_caches, Path::direct});
  std::map<Path, int> takes{{Path::slots, 900'000}, {Path::past_caches, 800'000}, {Path::direct, 2'900'000}};
  std::map<Path, std::uint32_t> calls;
  for (int decisions = 0; decisions < 2;) {
    const auto turn = trial.next(Path::slots);
    ++calls[turn.path];
    if (turn.timed) trial.record(turn.path, nanoseconds(takes[turn.path]));
    if (!turn.decides) continue;
    trial.decide(std::vector{trial.times()});
    ++decisions;
  }
  EXPECT_EQ(calls[Path::direct], 1U);
  EXPECT_EQ(calls[Path::past_caches], 1 + usual.settling + usual.counted + usual.trailing);
  EXPECT_EQ(trial.path(Path::slots), Path::past_caches);
  EXPECT_EQ(trial.decided_by()[static_cast<std::size_t>(Path::direct)], 2'900'000U);
}

TEST(PathTrial, WhereAllOthersAreHopelessItEndsSoon) {
  PathTrial trial({Path::slots, Path::direct});
  std::map<Path, int> takes{{Path::slots, 900'000}, {Path::direct, 2'900'000}};
  std::vector<std::uint32_t> decisions;
  for (std::uint32_t call = 0; decisions.size() < 2; ++call) {
    const auto turn = trial.next(Path::slots);
    if (turn.timed) trial.record(turn.path, nanoseconds(takes[turn.path]));
    if (!turn.decides) continue;
    trial.decide(std::vector{trial.times()});
    EXPECT_EQ(trial.path(Path::slots), Path::slots);
    EXPECT_TRUE(trial.decided());
    decisions.push_back(call);
    takes[Path::direct] = 300'000;  // in the trial after the next, which has no rivals
  }
  EXPECT_EQ(decisions[0], usual.first_gap + usual.counted + usual.trailing + 1);
  const std::uint32_t next_gaps = usual.first_gap * usual.growth * (1 + usual.growth);
  EXPECT_EQ(decisions[1] - decisions[0], next_gaps + usual.counted + usual.trailing + 1 + 1);
  for (PathTrial::Turn turn; !(turn = trial.next(Path::slots)).decides;)
    if (turn.timed) trial.record(turn.path, nanoseconds(takes[turn.path]));
  trial.decide(std::vector{trial.times()});
  EXPECT_EQ(trial.path(Path::slots), Path::direct);
}

// The first call by a way finds nothing of it in the caches, nor of the kernel's part.
TEST(PathTrial, AColdCallIsNotHopeless) {
  PathTrial trial({Path::slots, Path::direct});
  int by_direct = 90'000;
  for (int decisions = 0; decisions < 2;) {
    const auto turn = trial.next(Path::slots);
    if (turn.timed) trial.record(turn.path, nanoseconds(turn.path == Path::slots ? 5000 : by_direct));
    if (turn.path == Path::direct) by_direct = 3000;
    if (!turn.decides) continue;
    trial.decide(std::vector{trial.times()});
    ++decisions;
  }
  EXPECT_EQ(trial.path(Path::slots), Path::direct);
}

TEST(PathTrial, AGlanceDoesNotCount) {
  PathTrial trial({Path::slots, Path::direct});
  int by_direct = 100;
  for (int decisions = 0; decisions < 2;) {
    const auto turn = trial.next(Path::slots);
    if (turn.timed) trial.record(turn.path, nanoseconds(turn.path == Path::slots ? 900 : by_direct));
    if (!turn.decides) continue;
    trial.decide(std::vector{trial.times()});
    by_direct = 1200;
    ++decisions;
  }
  EXPECT_EQ(trial.path(Path::slots), Path::slots);
  EXPECT_EQ(trial.decided_by()[static_cast<std::size_t>(Path::direct)], 1200U);
}

// Ranks that time no call, since none waits for one, leave nothing out.
TEST(PathTrial, NothingIsHopelessThatNobodyTimed) {
  PathTrial trial({Path::slots, Path::direct});
  std::uint32_t calls = 0;
  for (int decisions = 0; decisions < 2; ++calls) {
    if (!trial.next(Path::slots).decides) continue;
    trial.decide(std::vector{trial.times()});
    ++decisions;
  }
  EXPECT_EQ(calls, usual.first_gap + usual.calls(2) + 1);
}

}  // namespace
}  // namespace tutti::test
