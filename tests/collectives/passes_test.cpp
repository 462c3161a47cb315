// Schedules in other steps. That they still do what they should is proved for all algorithms
// (algorithms_test.cpp); here, what the steps become.
#include "collectives/passes.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include <tutti/verify.hpp>

#include "collectives/algorithms.hpp"

namespace tutti {
namespace {

Schedule one_step(const Step& step) {
  Schedule schedule;
  schedule.ranks = 2;
  schedule.lanes = {{{step}}, {}};
  return schedule;
}

Lane split(const Step& step) { return sent_from_memory(one_step(step)).lanes[0][0]; }

TEST(SentFromMemory, InputIsSentBeforeItIsCopied) {
  const Lane lane = split({{in(0)}, {out(0), message(1)}});
  EXPECT_EQ(lane, (Lane{{{in(0)}, {message(1)}}, {{in(0)}, {out(0)}}}));
}

TEST(SentFromMemory, AReductionIsStoredAndSentFromThere) {
  const Lane lane = split({{in(0), message(1)}, {out(0), message(1)}, true});
  EXPECT_EQ(lane, (Lane{{{in(0), message(1)}, {out(0)}, true}, {{out(0)}, {message(1)}}}));
}

TEST(SentFromMemory, WhatIsNotKeptStaysOneStep) {
  for (const Step& step : {Step{{in(0), message(1)}, {message(1)}},
                           Step{{message(1)}, {scratch(0), message(1)}}, Step{{message(1)}, {out(0)}}})
    EXPECT_EQ(split(step), Lane{step});
}

TEST(SentFromMemory, NoStepOfAnAllGatherBothStoresAndSends) {
  const Schedule schedule = sent_from_memory(find_algorithm(Collective::all_gather, "ring")->make(4, 0));
  const auto is_message = [](const Operand& o) { return o.kind == Operand::Kind::message; };
  for (const auto& lanes : schedule.lanes)
    for (const Lane& lane : lanes)
      for (const Step& step : lane)
        EXPECT_TRUE(std::ranges::all_of(step.sinks, is_message) ||
                    std::ranges::none_of(step.sinks, is_message));
}

TEST(InTurn, LanesOfEachRankBecomeOneInTheirOrder) {
  const Step first{{in(0)}, {message(1)}}, second{{message(1)}, {out(0)}}, third{{in(1)}, {out(1)}};
  Schedule schedule;
  schedule.ranks = 3;
  schedule.lanes = {{{first, third}, {}, {second}}, {{second}}, {}};
  EXPECT_EQ(in_turn(schedule).lanes,
            (std::vector<std::vector<Lane>>{{{first, third, second}}, {{second}}, {}}));
}

// In place, what is still to be sent must not be written over.
TEST(InTurn, AnExchangeHoldsInPlace) {
  const Schedule schedule = find_algorithm(Collective::all_to_all, "pairwise")->make(3, 0);
  EXPECT_TRUE(verify(schedule, {0, 2, true, false}));
  EXPECT_FALSE(verify(in_turn(schedule), {0, 2, true, false}));
}

}  // namespace
}  // namespace tutti
