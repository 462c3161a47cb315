// The verifier against random edits: whatever it accepts must really give the right answer.
#include <algorithm>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "collectives/algorithms.hpp"
#include "collectives/interpreter.hpp"
#include "collectives/mutants.hpp"
#include "sanitized.hpp"

namespace tutti {
namespace {

using test::below, test::mutate, test::Random;

std::string first_failure(const Schedule& schedule, const VerifyOptions& options, unsigned seeds) {
  for (unsigned seed = 0; seed < seeds; ++seed) {
    const int room = schedule.credits + static_cast<int>(seed % 3);
    if (const auto wrong = test::interpret(schedule, options, room, seed)) return *wrong;
  }
  return "";
}

constexpr int effort = sanitized ? 1 : 6;

TEST(Interpreter, AgreesWithEveryProof) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      const Schedule schedule = algorithm.make(ranks, ranks / 2, ranks > 3 ? 2 : 0);
      for (const bool in_place : {false, true}) {
        for (const bool views : {false, true}) {
          const VerifyOptions options{0, 2, in_place && algorithm.in_place, views && algorithm.views};
          EXPECT_EQ(first_failure(schedule, options, effort), "")
              << name(algorithm.collective) << ' ' << algorithm.name;
        }
      }
    }
  }
}

TEST(Interpreter, SeesTheRacesThatProofsRefuse) {
  const VerifyOptions in_place{0, 2, true, false};
  EXPECT_NE(first_failure(find_algorithm(Collective::all_to_all, "pairwise")->make(4, 0), in_place, 50), "");
  EXPECT_NE(first_failure(find_algorithm(Collective::all_to_all, "direct_pull")->make(4, 0), in_place, 50),
            "");
  const VerifyOptions viewed{0, 2, true, true};
  EXPECT_NE(first_failure(find_algorithm(Collective::all_to_all, "exchange")->make(4, 0), viewed, 50), "");
  EXPECT_NE(first_failure(find_algorithm(Collective::all_reduce, "all_pairs")->make(4, 0), viewed, 50), "");
}

TEST(Mutants, ThatAreAcceptedGiveTheRightAnswer) {
  Random random(3);
  std::map<std::string, int> refused;
  int accepted = 0;
  for (const Algorithm& algorithm : algorithms()) {
    for (int trial = 0; trial < 50 * effort; ++trial) {
      const int ranks = 2 + static_cast<int>(below(random, 4));
      const Schedule original =
          algorithm.make(ranks, static_cast<Rank>(below(random, static_cast<std::size_t>(ranks))), trial % 3);
      Schedule mutant = original;
      for (std::size_t edits = 1 + below(random, 2); edits-- > 0;) mutate(mutant, random);
      if (mutant == original) continue;
      const VerifyOptions options{0, 1 + trial % 2, trial % 3 == 0, trial % 5 == 0};
      if (const auto fault = verify(mutant, options)) {
        ++refused[fault->what.substr(0, 40)];
        continue;
      }
      ++accepted;
      ASSERT_EQ(first_failure(mutant, options, 12), "") << to_text(mutant) << "mutated from\n"
                                                        << to_text(original);
    }
  }
  EXPECT_GT(accepted, 33 * effort);
  EXPECT_GT(refused.size(), 20U);
  for (const auto& [what, times] : refused) RecordProperty("refused: " + what, times);
  RecordProperty("accepted", accepted);
}

}  // namespace
}  // namespace tutti
