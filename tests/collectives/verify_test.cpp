// Bad schedules, one for every kind of fault, written by hand.
#include <tutti/verify.hpp>

#include <cstddef>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "collectives/verify/contract.hpp"
#include "collectives/verify/memory.hpp"
#include "collectives/verify/run.hpp"

namespace tutti {
namespace {

constexpr int huge = std::numeric_limits<int>::max();

std::string fault(const Schedule& schedule, const VerifyOptions& options = {}) {
  const auto found = verify(schedule, options);
  return found ? to_string(*found) : "proved";
}

std::string fault(const std::string& text, const VerifyOptions& options = {}) {
  return fault(parse_schedule(text), options);
}

/// Two ranks, one lane each.
std::string two(const std::string& header, const std::string& first, const std::string& second) {
  return header + "\nrank 0\nlane 0\n" + first + "\nrank 1\nlane 0\n" + second;
}

const std::string sum = "all_reduce \"x\" ranks 2 chunks 1 scratch 2";
const std::string copy = "broadcast \"x\" ranks 2 chunks 1 scratch 2";
const std::string good[2] = {"to 1 = in[0]\nout[0] = in[0] + from 1 complete",
                             "to 0 = in[0]\nout[0] = in[0] + from 0 complete"};

TEST(Verify, ProvesTheGoodOne) { EXPECT_EQ(fault(two(sum, good[0], good[1])), "proved"); }

TEST(Verify, Data) {
  EXPECT_EQ(fault(two(copy, "to 1 = in[0]", "out[0] = from 0")), "rank 0: output chunk 0 is never written");
  EXPECT_EQ(fault(two("all_gather \"x\" ranks 2 chunks 2", "to 1 = in[0]\nout[0] = in[0]\nout[1] = from 1",
                      "to 0 = in[0]\nout[0] = in[0]\nout[1] = from 0")),
            "rank 1: output chunk 0 holds the wrong data at the end");
  EXPECT_EQ(fault(two(sum, "to 1 = in[0]\nout[0] = in[0] + in[0] complete\nnothing = from 1*0",
                      "to 0*0 = nothing")),
            "rank 0, lane 0, step 1: `complete` on a fold that is not the finished reduction");
  EXPECT_EQ(fault(two(copy, "out[0], to 1 = scratch[1]", "out[0] = from 0")),
            "rank 0, lane 0, step 0: reads a chunk that holds nothing yet");
}

TEST(Verify, AContributionFoldedInTwice) {
  EXPECT_EQ(fault(two(sum, "to 1 = in[0]\nout[0] = in[0] + in[0] + from 1", good[1])),
            "rank 0: output chunk 0 holds the wrong data at the end");
}

TEST(Verify, PiecesMustNotMix) {
  // Correct for one piece. With two, lane 1 may find the scratch chunk of the other piece.
  const std::string relay =
      "broadcast \"x\" ranks 2 chunks 1 scratch 1\nrank 0\nlane 0\nout[0], to 1 = in[0]\nlane 1\n"
      "to 1/1*0 = from 1*0\nrank 1\nlane 0\nscratch[0] = from 0\nto 0*0 = nothing\nlane 1\nnothing = from "
      "0/1*0\n"
      "out[0] = scratch[0]\n";
  EXPECT_EQ(fault(relay), "proved");
  EXPECT_EQ(fault(relay, {0, 2, false, false}),
            "rank 1, lane 1, step 1: race: reads a chunk that another lane may still be writing");
}

TEST(Verify, Complete) {
  EXPECT_EQ(fault(two(sum, "to 1 = in[0]\nout[0] = in[0] + from 1", good[1])),
            "rank 0, lane 0, step 1: finishes the reduction and is not marked `complete`");
  EXPECT_EQ(fault(two(sum, "to 1 = in[0] complete\nout[0] = in[0] + from 1 complete", good[1])),
            "rank 0, lane 0, step 0: `complete` on a fold that is not the finished reduction");
  EXPECT_EQ(fault(two(sum, "scratch[0] = in[0] + from 1 complete\nout[0], to 1 = scratch[0] complete",
                      "to 0 = in[0]\nout[0] = from 0")),
            "rank 0, lane 0, step 1: `complete` on a reduction that was completed before");
  EXPECT_EQ(fault(two(copy, "out[0], to 1 = in[0] complete", "out[0] = from 0")),
            "rank 0, lane 0, step 0: `complete` in a collective that reduces nothing");
  const std::string alone = "reduce \"x\" ranks 1 chunks 1\nrank 0\nlane 0\nout[0] = in[0]";
  EXPECT_EQ(fault(alone), "rank 0, lane 0, step 0: finishes the reduction and is not marked `complete`");
  EXPECT_EQ(fault(alone + " complete"), "proved");
}

TEST(Verify, RacesBetweenLanes) {
  const std::string one = "broadcast \"x\" ranks 1 chunks 1 scratch 1\nrank 0\nlane 0\n";
  EXPECT_EQ(fault(one + "out[0] = in[0]\nlane 1\nout[0] = in[0]"),
            "rank 0, lane 1, step 0: race: writes a chunk that another lane may still be writing");
  EXPECT_EQ(fault(one + "scratch[0] = in[0]\nlane 1\nout[0] = scratch[0]"),
            "rank 0, lane 1, step 0: race: reads a chunk that another lane may still be writing");
  EXPECT_EQ(fault(one + "scratch[0] = in[0]\nout[0] = scratch[0]\nlane 1\nscratch[0] = in[0]"),
            "rank 0, lane 1, step 0: race: writes a chunk that another lane may still be writing");
}

TEST(Verify, CreditsDoNotOrder) {
  // With one credit, the second send to rank 1 waits until the first was received; with more it does not.
  const std::string text =
      "broadcast \"x\" ranks 2 chunks 1 scratch 1\nrank 0\nlane 0\nout[0], to 1 = in[0]\nto 1*0 = nothing\n"
      "to 1/1*0 = nothing\nrank 1\nlane 0\nscratch[0] = from 0\nout[0] = scratch[0]\nnothing = from "
      "0*0\nlane 1\n"
      "nothing = from 0/1*0\nscratch[0] = out[0]\n";
  EXPECT_NE(fault(text).find("race"), std::string::npos) << fault(text);
}

TEST(Verify, Views) {
  const std::string text =
      two(copy, "scratch[0], out[0] = in[0]\nto 1 = scratch[0]\nscratch[0] = in[0]", "out[0] = from 0");
  EXPECT_EQ(fault(text), "proved");
  EXPECT_EQ(fault(text, {0, 1, false, true}),
            "rank 0, lane 0, step 2: race: overwrites a chunk that a message may still view");
  const std::string waits =
      two(copy, "scratch[0], out[0] = in[0]\nto 1 = scratch[0]\nnothing = from 1*0\nscratch[0] = in[0]",
          "out[0] = from 0\nto 0*0 = nothing");
  EXPECT_EQ(fault(waits, {0, 2, false, true}), "proved");
  const std::string early =
      two(copy, "scratch[0], out[0] = in[0]\nto 1 = scratch[0]\nnothing = from 1*0\nscratch[0] = in[0]",
          "to 0*0 = nothing\nout[0] = from 0");
  EXPECT_NE(fault(early, {0, 1, false, true}).find("race"), std::string::npos);
}

TEST(Verify, InPlace) {
  const std::string text =
      two("all_to_all \"x\" ranks 2 chunks 2", "out[0] = in[0]\nout[1] = from 1\nto 1 = in[1]",
          "to 0 = in[0]\nout[1] = in[1]\nout[0] = from 0");
  EXPECT_EQ(fault(text), "proved");
  const std::string overwritten = "reads an input that, in place, the output has overwritten";
  EXPECT_EQ(fault(text, {0, 1, true, false}), "rank 0, lane 0, step 2: " + overwritten);
  // Right where both ranks are in place, and where none is: two mistakes make up for each other.
  const std::string both = two(sum,
                               "to 1 = in[0]\nscratch[0] = in[0] + from 1 complete\nout[0] = from 1\n"
                               "to 1 = in[0]\nout[0] = scratch[0]",
                               "to 0 = in[0]\nto 0 = in[0]\nout[0] = from 0\n"
                               "out[0] = from 0 + in[0] complete");
  EXPECT_EQ(fault(both), "proved");
  EXPECT_EQ(fault(both, {0, 1, true, false}), "rank 0, lane 0, step 3: " + overwritten);
}

TEST(Verify, OneSided) {
  const std::string pull = "out[0] = in[0]@0";
  EXPECT_EQ(fault(two(copy, "out[0] = in[0]", pull)),
            "rank 1, lane 0, step 0: race: touches memory of rank 0, which may not have started");
  EXPECT_EQ(fault(two(copy, "to 1*0 = nothing\nout[0] = in[0]", "nothing = from 0*0\n" + pull)),
            "rank 1, lane 0, step 1: race: touches memory of rank 0, whose call may have returned");
  EXPECT_EQ(fault(two(copy, "to 1*0 = nothing\nout[0] = in[0]\nnothing = from 1*0",
                      "nothing = from 0*0\n" + pull + "\nto 0*0 = nothing")),
            "proved");
  EXPECT_EQ(fault(two(copy, "nothing = from 1*0\nout[0], out[0]@1 = in[0]\nto 1*0 = nothing",
                      "to 0*0 = nothing\nout[0] = in[0]@0\nnothing = from 0*0")),
            "rank 1, lane 0, step 1: race: touches memory of rank 0, which may not have started");
}

TEST(Verify, Deadlocks) {
  EXPECT_EQ(fault(two(sum, "out[0] = in[0] + from 1 complete\nto 1 = in[0]",
                      "out[0] = in[0] + from 0 complete\nto 0 = in[0]")),
            "rank 0, lane 0, step 0: deadlock: waits for a message from rank 1 on channel 0");
  const std::string ahead =
      two("all_reduce \"x\" ranks 2 chunks 2",
          "to 1 = in[0]\nto 1 = in[1]\nout[0] = in[0] + from 1 complete\nout[1] = in[1] + from 1 complete",
          "to 0 = in[0]\nto 0 = in[1]\nout[0] = in[0] + from 0 complete\nout[1] = in[1] + from 0 complete");
  EXPECT_EQ(fault(ahead, {2, 3, false, false}), "proved");
  EXPECT_EQ(
      fault(ahead, {1, 1, false, false}),
      "rank 0, lane 0, step 1: deadlock: waits for room in the FIFO to rank 1 on channel 0, which holds 1 "
      "(credits)");
}

TEST(Verify, Messages) {
  EXPECT_EQ(fault(two(copy, "out[0], to 1 = in[0]\nto 1/1 = in[0]", "out[0] = from 0")),
            "rank 0, lane 0, step 1: sends a message that is never received");
  EXPECT_EQ(fault(two("broadcast \"x\" ranks 2 chunks 2", "out[0:2], to 1*2 = in[0:2]",
                      "out[0] = from 0\nout[1] = from 0")),
            "rank 1, lane 0, step 0: expects a message of 1 chunks from rank 0 and receives one of 2");
  EXPECT_EQ(
      fault(two(copy, "out[0], to 1 = in[0]\nlane 1\nto 1 = in[0]", "out[0] = from 0\nout[0] = from 0")),
      "rank 0, lane 1, step 0: two lanes use the same end of a FIFO");
  EXPECT_EQ(fault(two(copy, "out[0], to 1, to 1 = in[0]", "out[0] = from 0\nout[0] = from 0")),
            "rank 0, lane 0, step 0: a step names one FIFO twice");
}

TEST(Verify, Barriers) {
  const std::string header = "barrier \"x\" ranks 2 chunks 0";
  EXPECT_EQ(
      fault(two(header, "to 1*0 = nothing\nnothing = from 1*0", "to 0*0 = nothing\nnothing = from 0*0")),
      "proved");
  EXPECT_EQ(fault(two(header, "to 1*0 = nothing", "nothing = from 0*0")),
            "rank 0: may leave the barrier before rank 1 has entered it");
}

// Everybody hears of one other in each round: three rounds would do, but it runs once.
TEST(Verify, BarriersRunOnceHoweverManyPieces) {
  Builder b("round", Collective::barrier, 4, 0);
  for (Rank me = 0; me < 4; ++me) {
    b.at(me).to((me + 1) % 4, 0, 0);
    b.at(me).from((me + 3) % 4, 0, 0);
  }
  const Schedule schedule = std::move(b).build();
  for (const int pieces : {1, 3})
    EXPECT_NE(fault(schedule, {.pieces = pieces}).find("may leave the barrier before"), std::string::npos)
        << pieces;
}

TEST(Verify, Steps) {
  const auto step = [](const std::string& text) {
    const std::string what =
        fault(two("all_reduce \"x\" ranks 2 chunks 3 scratch 3", text, "out[0] = in[0]"));
    return what.substr(what.find("step 0: ") + 8);
  };
  EXPECT_EQ(step("in[0] = in[1]"), "writes an input");
  EXPECT_EQ(step("out[3] = in[0]"), "chunks outside the buffer");
  EXPECT_EQ(step("out[0] = in[-1]"), "chunks outside the buffer");
  EXPECT_EQ(step("out[2:2] = in[0:2]"), "chunks outside the buffer");
  EXPECT_EQ(step("out[2147483647:2] = in[0:2]"), "chunks outside the buffer");
  EXPECT_EQ(step("out[0:0] = in[0:0]"), "chunks outside the buffer");
  EXPECT_EQ(step("out[0:2] = in[0]"), "operands of different numbers of chunks");
  EXPECT_EQ(step("to 1*0 = in[0]"), "operands of different numbers of chunks");
  EXPECT_EQ(step("nothing = nothing"), "a step of no operands");
  EXPECT_EQ(step("nothing = in[0]"), "data from nowhere, or to nowhere");
  EXPECT_EQ(step("to 1 = nothing"), "data from nowhere, or to nowhere");
  EXPECT_EQ(step("to 1*0 = nothing complete"), "`complete` on a token, which carries nothing");
  EXPECT_EQ(step("nothing = from 1*0 complete"), "`complete` on a token, which carries nothing");
  EXPECT_EQ(step("to 1*-1 = nothing"), "a message of negative size");
  EXPECT_EQ(step("to 2 = in[0]"), "a message from or to no such peer");
  EXPECT_EQ(step("to 0 = in[0]"), "a message from or to no such peer");
  EXPECT_EQ(step("to -1 = in[0]"), "a message from or to no such peer");
  EXPECT_EQ(step("to 1/4 = in[0]"), "a channel out of range");
  for (const int channel : {max_channels, 65536, -1}) {
    Builder builder("b", Collective::all_gather, 2, 2);
    builder.at(0).fold(in(0)).to(1, channel);
    const auto fault = verify(std::move(builder).build());
    ASSERT_TRUE(fault.has_value()) << channel;
    EXPECT_EQ(fault->what, "a channel out of range") << channel;
  }
  EXPECT_EQ(step("out[0] = in[0]@2"), "memory of no such rank");
  EXPECT_EQ(step("out[0] = in[0]@-2"), "memory of no such rank");
  EXPECT_EQ(step("out[0:2], out[1:2] = in[0:2]"), "two sinks of a step overlap");
  EXPECT_EQ(step("scratch[1:2] = scratch[0:2]"), "a source and a sink of a step overlap in part");
}

TEST(Verify, BuffersThatARankDoesNotHave) {
  EXPECT_EQ(fault(two(copy, "out[0], to 1 = in[0]", "out[0] = from 0\nscratch[0] = in[0]")),
            "rank 1, lane 0, step 1: chunks outside the buffer");
  EXPECT_EQ(fault(two("reduce \"x\" ranks 2 chunks 1 root 1", "out[0], to 1 = in[0]",
                      "out[0] = in[0] + from 0 complete")),
            "rank 0, lane 0, step 0: chunks outside the buffer");
}

TEST(Verify, Headers) {
  const Schedule sound = parse_schedule(two(sum, good[0], good[1]));
  const auto with = [&](auto change) {
    Schedule schedule = sound;
    change(schedule);
    return fault(schedule);
  };
  EXPECT_EQ(fault(Schedule{}), "no ranks");
  EXPECT_EQ(with([](Schedule& s) { s.ranks = huge; }), "steps for another number of ranks");
  EXPECT_EQ(with([](Schedule& s) { s.ranks = -2; }), "no ranks");
  EXPECT_EQ(with([](Schedule& s) { s.collective = static_cast<Collective>(77); }), "no such collective");
  EXPECT_EQ(with([](Schedule& s) { s.collective = Collective::barrier; }),
            "a barrier has no chunks (chunks 0)");
  EXPECT_EQ(with([](Schedule& s) { s.collective = Collective::gather; }),
            "this collective has one chunk for every rank");
  EXPECT_EQ(with([](Schedule& s) { s.chunks = 0; }), "a buffer of no chunks");
  EXPECT_EQ(with([](Schedule& s) { s.chunks = huge; }), "too large to prove: too many chunks");
  EXPECT_EQ(with([](Schedule& s) { s.scratch = huge; }), "too large to prove: too many chunks");
  EXPECT_EQ(with([](Schedule& s) { s.scratch = -1; }), "a negative number of scratch chunks");
  EXPECT_EQ(with([](Schedule& s) { s.root = 2; }), "the root is not one of the ranks");
  EXPECT_EQ(with([](Schedule& s) { s.credits = 0; }), "credits out of range");
  EXPECT_EQ(with([](Schedule& s) { s.credits = max_credits + 1; }), "credits out of range");
  EXPECT_EQ(with([](Schedule& s) { s.lanes[1].resize(max_lanes + 1); }), "more lanes than an executor runs");
  EXPECT_EQ(with([](Schedule& s) { s.lanes[0][0][0].sources[0].kind = static_cast<Operand::Kind>(9); }),
            "rank 0, lane 0, step 0: an operand of no known kind");
  EXPECT_EQ(with([](Schedule& s) { s.lanes[0][0][0].sources[0].space = static_cast<Space>(9); }),
            "rank 0, lane 0, step 0: an operand of no known kind");
  EXPECT_EQ(with([](Schedule& s) { s.lanes[0][0][0].sinks[0].count = huge; }),
            "too large to prove: too many steps");
  EXPECT_EQ(fault(sound, {-1, 1, false, false}), "verify needs credits and at least one piece");
  EXPECT_EQ(fault(sound, {0, 0, false, false}), "verify needs credits and at least one piece");
  EXPECT_EQ(fault(sound, {0, huge, false, false}), "too large to prove: too many pieces");
}

// What a rank knows at its end has an entry for every lane.
TEST(Verify, RanksWithoutLanesCountAsLanes) {
  Schedule bare{"bare", Collective::barrier, 0, 8193, 0, 0, 1, {}};
  bare.lanes.resize(8193);
  EXPECT_EQ(fault(bare), "too large to prove: too many lanes");
}

// Of eight thousand lanes, a million messages under way would keep tens of gigabytes.
TEST(Verify, GivesUpBeforeClocksFillTheMemory) {
  const Schedule schedule = parse_schedule(two(sum, good[0], good[1]));
  const auto proved_within = [&](std::size_t clock_entries, const VerifyOptions& options) {
    proof::Memory memory(schedule, options);
    const proof::Contract contract(schedule, options.pieces);
    const auto found = proof::Run(schedule, options, contract, memory, clock_entries).run();
    return found ? to_string(*found) : "proved";
  };
  EXPECT_EQ(proved_within(3, {}),
            "rank 1, lane 0, step 1: too large to prove: too many messages under way among too many lanes");
  // Two lanes with a clock of two entries each, as many messages, and what all knew at the beginning.
  const std::size_t enough = 2 * (2 + 2 + 1);
  EXPECT_EQ(proved_within(enough, {}), "proved");
  EXPECT_EQ(proved_within(enough, {.pieces = 100}), "proved") << "received messages keep none";
}

// Whoever reads a chunk is compared with all that may be reading it.
TEST(Verify, GivesUpWhereTooManyLanesReadTheSame) {
  const Schedule schedule = parse_schedule(
      "broadcast \"x\" ranks 1 chunks 1 scratch 2\nrank 0\nlane 0\nout[0] = in[0]\nlane 1\n"
      "scratch[0] = in[0]\nlane 2\nscratch[1] = in[0]\n");
  const auto proved_with = [&](std::size_t compared) {
    const VerifyOptions options;
    proof::Memory memory(schedule, options, compared);
    const proof::Contract contract(schedule, options.pieces);
    const auto found = proof::Run(schedule, options, contract, memory).run();
    return found ? to_string(*found) : "proved";
  };
  EXPECT_EQ(proved_with(0 + 1 + 2), "proved");
  EXPECT_EQ(proved_with(0 + 1 + 1),
            "rank 0, lane 2, step 0: too large to prove: too many lanes read the same chunks");
}

TEST(Proof, TellsExpressionsApart) {
  const auto proof = [](const std::string& steps) {
    const std::string rest =
        "\nrank 1\nlane 0\nto 0 = in[0]\nout[0] = from 0\nrank 2\nlane 0\nto 0 = in[0]\nout[0] = from 0";
    Proof result;
    const auto found =
        verify(parse_schedule("all_reduce \"x\" ranks 3 chunks 1 scratch 1\nrank 0\nlane 0\n" + steps + rest),
               {}, &result);
    EXPECT_FALSE(found) << to_string(*found);
    return std::pair(result.same_everywhere, result.rank_order);
  };
  EXPECT_EQ(proof("out[0], to 1, to 2 = in[0] + from 1 + from 2 complete"), std::pair(true, true));
  EXPECT_EQ(proof("out[0], to 1, to 2 = from 1 + in[0] + from 2 complete"),
            std::pair(true, true));  // commutative
  EXPECT_EQ(proof("out[0], to 1, to 2 = in[0] + from 2 + from 1 complete"), std::pair(true, false));
  EXPECT_EQ(proof("scratch[0] = in[0] + from 1\nout[0], to 1, to 2 = scratch[0] + from 2 complete"),
            std::pair(true, true));
  EXPECT_EQ(proof("scratch[0] = from 1 + from 2\nout[0], to 1, to 2 = in[0] + scratch[0] complete"),
            std::pair(true, false));
}

TEST(Proof, OneFoldIsOneStepInTheOrderOfRanks) {
  const auto one_fold = [](const std::string& steps) {
    const std::string others = "rank 1\nlane 0\nto 0 = in[0]\nrank 2\nlane 0\nto 0 = in[0]\n";
    Proof result;
    const auto found =
        verify(parse_schedule("reduce \"x\" ranks 3 chunks 1 scratch 1\nrank 0\nlane 0\n" + steps + others),
               {}, &result);
    EXPECT_FALSE(found) << to_string(*found);
    return result.one_fold;
  };
  EXPECT_TRUE(one_fold("out[0] = in[0] + from 1 + from 2 complete\n"));
  EXPECT_TRUE(one_fold("scratch[0] = in[0] + from 1 + from 2 complete\nout[0] = scratch[0]\n"));
  EXPECT_FALSE(one_fold("out[0] = in[0] + from 2 + from 1 complete\n"));
  EXPECT_FALSE(one_fold("scratch[0] = in[0] + from 1\nout[0] = scratch[0] + from 2 complete\n"));
}

TEST(Proof, SameEverywhereMindsOrderAndRounding) {
  const auto same = [](const std::string& first) {
    std::string text =
        "all_reduce \"x\" ranks 3 chunks 1 scratch 1\nrank 0\nlane 0\nto 1, to 2 = in[0]\n" + first;
    text += "rank 1\nlane 0\nto 0, to 2 = in[0]\nout[0] = from 0 + in[0] + from 2 complete\n";
    text += "rank 2\nlane 0\nto 0, to 1 = in[0]\nout[0] = from 0 + from 1 + in[0] complete\n";
    Proof result;
    const auto found = verify(parse_schedule(text), {}, &result);
    EXPECT_FALSE(found) << to_string(*found);
    return result.same_everywhere;
  };
  EXPECT_TRUE(same("out[0] = in[0] + from 1 + from 2 complete\n"));
  EXPECT_FALSE(same("out[0] = in[0] + from 2 + from 1 complete\n"));
  // The same chain, but 16-bit floats would be rounded once more.
  EXPECT_FALSE(same("scratch[0] = in[0] + from 1\nout[0] = scratch[0] + from 2 complete\n"));
}

}  // namespace
}  // namespace tutti
