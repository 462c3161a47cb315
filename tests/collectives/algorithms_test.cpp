// Every algorithm, proved for every number of ranks up to 64.
#include "collectives/algorithms.hpp"
#include "collectives/facts.hpp"
#include "collectives/passes.hpp"

#include <algorithm>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tutti/verify.hpp>

#include "sanitized.hpp"

namespace tutti {

void PrintTo(const Algorithm& algorithm, std::ostream* stream) {
  *stream << name(algorithm.collective) << ' ' << algorithm.name;
}

namespace {

constexpr int most_ranks = sanitized ? 7 : 64;

std::vector<Rank> roots(const Algorithm& algorithm, int ranks) {
  if (!has_root(algorithm.collective)) return {0};
  if (ranks > 16) return {ranks / 3};
  const std::set<Rank> some = {0, ranks / 2, ranks - 1};
  return {some.begin(), some.end()};
}

std::vector<int> pieces(int ranks) { return ranks <= 16 ? std::vector{1, 2, 3} : std::vector{2}; }

/// Of more than 32 ranks one, in turns that even numbers take part in, too: proofs take longer with the
/// square of the ranks.
std::vector<VerifyOptions> claims(const Algorithm& algorithm, int ranks) {
  std::vector<VerifyOptions> result;
  for (const bool in_place : {false, true}) {
    for (const bool views : {false, true}) {
      if ((!in_place || algorithm.in_place) && (!views || algorithm.views))
        result.push_back({0, 1, in_place, views});
    }
  }
  if (ranks > 32) return {result[static_cast<std::size_t>(ranks % 7) % result.size()]};
  return result;
}

/// Sizes of nodes that make a difference; the last node of most is smaller than the others.
std::vector<int> node_sizes(const Algorithm& algorithm, int ranks) {
  if (algorithm.by_nodes == nullptr) return {0};
  std::set<int> some = {3, 8};
  if (ranks <= 16) some = {1, 2, 3, 4, 8, ranks / 2, ranks - 1, ranks};
  std::erase_if(some, [&](int size) { return size < 1 || size > ranks; });
  return {some.begin(), some.end()};
}

/// As lowering and the executor make it of short messages (LowerSettings::sends_apart, whole_steps): what
/// sends and copies is two steps, and each peer gets its message when there is room for it.
Schedule with_sends_apart(Schedule schedule) {
  const auto is_message = [](const Operand& o) { return o.kind == Operand::Kind::message; };
  for (auto& lanes : schedule.lanes)
    for (Lane& lane : lanes) {
      Lane steps;
      for (const Step& step : lane) {
        Step copy{step.sources, {}, false};
        Lane sends;
        for (const Operand& sink : step.sinks)
          if (is_message(sink))
            sends.push_back({step.sources, {sink}, false});
          else
            copy.sinks.push_back(sink);
        const bool from_memory = step.sources.size() == 1 && !is_message(step.sources[0]) && !step.complete;
        const bool copies = !copy.sinks.empty();
        if (!from_memory || (copies && step.sources[0].space == Space::scratch)) {
          steps.push_back(step);
          continue;
        }
        steps.insert(steps.end(), sends.begin(), sends.end());
        if (copies) steps.push_back(copy);
      }
      lane = std::move(steps);
    }
  return schedule;
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, IsProvedWithSendsApart) {
  if (GetParam().one_sided) return;
  for (int ranks = 2; ranks <= std::min(most_ranks, 20); ++ranks)
    for (const Rank root : roots(GetParam(), ranks))
      for (const int node_size : node_sizes(GetParam(), ranks))
        for (const bool in_place : {false, true})
          for (const int count : {1, 2, 3}) {
            if (in_place && !GetParam().in_place) continue;
            const Schedule schedule = with_sends_apart(GetParam().make(ranks, root, node_size));
            const auto fault = verify(schedule, {0, count, in_place, false});
            ASSERT_FALSE(fault) << to_string(*fault) << "\nranks " << ranks << " root " << root
                                << " node size " << node_size << " pieces " << count << " in place "
                                << in_place;
          }
}

// Over networks: what was split for it is read from memory, and leaves peer by peer.
TEST_P(EveryAlgorithm, IsProvedFromMemoryWithSendsApart) {
  if (GetParam().one_sided || !GetParam().views) return;
  for (int ranks = 2; ranks <= std::min(most_ranks, 12); ++ranks)
    for (const Rank root : roots(GetParam(), ranks))
      for (const int node_size : node_sizes(GetParam(), ranks))
        for (const bool in_place : {false, true}) {
          if (in_place && !GetParam().in_place) continue;
          const Schedule schedule =
              with_sends_apart(sent_from_memory(GetParam().make(ranks, root, node_size)));
          const auto fault = verify(schedule, {0, 2, in_place, true});
          ASSERT_FALSE(fault) << to_string(*fault) << "\nranks " << ranks << " root " << root << " node size "
                              << node_size << " in place " << in_place;
        }
}

// Rank 0 copies its input and sends it in one step; the answer comes after both. So schedules of users stay
// as they are.
TEST(SendsApart, BreaksSchedulesThatCountOnTheCopy) {
  Builder b("answered", Collective::all_reduce, 2, 1, 2, 1);
  b.at(0, 0).store(out(0)).fold(out(0)).from(1).complete();
  b.at(0, 1).store(out(0)).to(1).fold(in(0));
  b.at(1).store(scratch(0)).from(0);
  b.at(1).to(0).fold(in(0));
  b.at(1).store(out(0)).fold(scratch(0)).fold(in(0)).complete();
  const Schedule schedule = std::move(b).build();
  EXPECT_FALSE(verify(schedule, {0, 1, false, false}));
  EXPECT_TRUE(verify(with_sends_apart(schedule), {0, 1, false, false}));
}

// Rank 0 sends to two, one of whom answers into what it sent.
TEST(SendsApart, BreaksSchedulesThatCountOnSendingAtOnce) {
  Builder b("hasty", Collective::broadcast, 4, 1, 2, 1);
  b.at(0, 0).store(out(0)).store(scratch(0)).fold(in(0));
  b.at(0, 0).fold(scratch(0)).to(1).to(2);
  b.at(0, 1).store(scratch(0)).from(1);
  b.at(1).store(out(0)).from(0);
  b.at(1).fold(out(0)).to(0).to(3);
  b.at(2).store(out(0)).from(0);
  b.at(3).store(out(0)).from(1);
  const Schedule schedule = std::move(b).build();
  EXPECT_FALSE(verify(schedule, {0, 1, false, false}));
  EXPECT_TRUE(verify(with_sends_apart(schedule), {0, 1, false, false}));
}

TEST_P(EveryAlgorithm, IsProvedAsClaimed) {
  for (int ranks = 1; ranks <= most_ranks; ++ranks) {
    for (const Rank root : roots(GetParam(), ranks)) {
      for (const int node_size : node_sizes(GetParam(), ranks)) {
        const Schedule schedule = GetParam().make(ranks, root, node_size);
        for (VerifyOptions options : claims(GetParam(), ranks)) {
          for (const int count : pieces(ranks)) {
            options.pieces = count;
            // Messages are views only where as much as possible is sent from memory.
            const auto fault = verify(options.views ? sent_from_memory(schedule) : schedule, options);
            ASSERT_FALSE(fault) << to_string(*fault) << "\nranks " << ranks << " root " << root
                                << " node size " << node_size << " pieces " << count << " in place "
                                << options.in_place << " views " << options.views;
          }
        }
      }
    }
  }
}

// Also with sends apart, as short ones run.
TEST_P(EveryAlgorithm, IsProvedInTurnAsClaimed) {
  if (!GetParam().in_place_in_turn) return;
  for (int ranks = 1; ranks <= most_ranks; ++ranks)
    for (const Rank root : roots(GetParam(), ranks))
      for (const int node_size : node_sizes(GetParam(), ranks))
        for (const bool apart : {false, true})
          for (const int count : pieces(ranks)) {
            const Schedule schedule = in_turn(GetParam().make(ranks, root, node_size));
            const auto fault = verify(apart ? with_sends_apart(schedule) : schedule, {0, count, true, false});
            ASSERT_FALSE(fault) << to_string(*fault) << "\nranks " << ranks << " root " << root
                                << " node size " << node_size << " pieces " << count << " apart " << apart;
          }
}

TEST_P(EveryAlgorithm, ClaimsAllThatHolds) {
  const auto holds = [&](bool in_place, bool views, bool turns = false) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const int node_size : node_sizes(GetParam(), ranks)) {
        Schedule schedule = GetParam().make(ranks, 0, node_size);
        if (turns) schedule = in_turn(std::move(schedule));
        if (verify(views ? sent_from_memory(schedule) : schedule, {0, 3, in_place, views})) return false;
      }
    }
    return true;
  };
  EXPECT_EQ(GetParam().in_place, holds(true, false));
  EXPECT_EQ(GetParam().views, holds(GetParam().in_place, true) && holds(false, true));
  EXPECT_EQ(GetParam().in_place_in_turn, !GetParam().in_place && holds(true, false, true));
}

TEST_P(EveryAlgorithm, HasTheShapeThatExecutorsRun) {
  for (const int ranks : {1, 2, 3, 8, 13}) {
    const Schedule schedule = GetParam().make(ranks, ranks - 1);
    EXPECT_EQ(schedule.name, GetParam().name);
    EXPECT_EQ(schedule.collective, GetParam().collective);
    EXPECT_EQ(schedule.root, has_root(GetParam().collective) ? ranks - 1 : 0);
    bool reads_peers = false;
    bool writes_peers = false;
    bool sends_data = false;
    for (const auto& lanes : schedule.lanes) {
      EXPECT_LE(lanes.size(), static_cast<std::size_t>(max_lanes));
      for (const Lane& lane : lanes) {
        for (const Step& step : lane) {
          for (const Operand& operand : step.sources) {
            reads_peers = reads_peers || (operand.kind == Operand::Kind::memory && operand.rank >= 0);
          }
          for (const Operand& operand : step.sinks) {
            writes_peers = writes_peers || (operand.kind == Operand::Kind::memory && operand.rank >= 0);
            sends_data = sends_data || (operand.kind == Operand::Kind::message && operand.count > 0);
          }
        }
      }
    }
    if (ranks == 1) continue;
    EXPECT_EQ(reads_peers || writes_peers, GetParam().one_sided);
    EXPECT_EQ(writes_peers, GetParam().writes_peers);
    EXPECT_EQ(sends_data, !GetParam().one_sided && GetParam().collective != Collective::barrier);
  }
}

TEST_P(EveryAlgorithm, IsFoundByItsName) {
  const Algorithm* found = find_algorithm(GetParam().collective, GetParam().name);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->flat, GetParam().flat);
  EXPECT_EQ(found->by_nodes, GetParam().by_nodes);
}

INSTANTIATE_TEST_SUITE_P(Collectives, EveryAlgorithm,
                         testing::ValuesIn(algorithms().begin(), algorithms().end()), [](const auto& test) {
                           return std::string(name(test.param.collective)) + "_" +
                                  std::string(test.param.name);
                         });

TEST_P(EveryAlgorithm, AsksForNoMoreCreditsThanItNeeds) {
  bool needed = false;
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const int node_size : node_sizes(GetParam(), ranks)) {
      const Schedule schedule = GetParam().make(ranks, 0, node_size);
      if (schedule.credits == 1) return;
      const auto fault = verify(schedule, {schedule.credits - 1, 2, false, false});
      needed = needed || (fault && fault->what.find("deadlock") == 0);
    }
  }
  EXPECT_TRUE(needed);
}

TEST_P(EveryAlgorithm, MoreRoomNeverHurts) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const int credits : {2, 3, 4, 1000}) {
      const auto fault = verify(GetParam().make(ranks, ranks - 1), {credits, 3, false, false});
      EXPECT_FALSE(fault) << to_string(*fault);
    }
  }
}

TEST(Algorithms, UnknownNamesAreNotFound) {
  EXPECT_EQ(find_algorithm(Collective::all_reduce, "bruck"), nullptr);
  EXPECT_EQ(find_algorithm(Collective::barrier, ""), nullptr);
}

TEST(Algorithms, EveryAllReduceIsTheSameEverywhere) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != Collective::all_reduce) continue;
    for (int ranks = 1; ranks <= 20; ++ranks) {
      for (const int node_size : node_sizes(algorithm, ranks)) {
        Proof proof;
        ASSERT_FALSE(verify(algorithm.make(ranks, 0, node_size), {0, 2, false, false}, &proof));
        EXPECT_TRUE(proof.same_everywhere) << algorithm.name << " of " << ranks;
      }
    }
  }
}

TEST(Algorithms, FoldsInTheOrderOfRanks) {
  const std::set<std::string_view> in_order = {"all_pairs", "two_shot", "direct", "direct_pull"};
  for (const Algorithm& algorithm : algorithms()) {
    if (!reduces(algorithm.collective)) continue;
    bool always = true;
    for (int ranks = 1; ranks <= 20; ++ranks) {
      Proof proof;
      ASSERT_FALSE(verify(algorithm.make(ranks, ranks / 2), {}, &proof));
      always = always && proof.rank_order;
      EXPECT_TRUE(proof.one_fold || in_order.count(algorithm.name) == 0) << algorithm.name << " of " << ranks;
    }
    EXPECT_EQ(always, in_order.count(algorithm.name) == 1)
        << name(algorithm.collective) << ' ' << algorithm.name;
  }
}

}  // namespace
}  // namespace tutti
