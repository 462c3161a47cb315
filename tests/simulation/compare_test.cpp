// Every word in which a ranking is explained.
#include "simulation/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti::simulation {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Network two_links() {
  Network network;
  network.ranks = 2;
  network.bandwidth = {1e9, 1e9};
  network.link_name = [](int link) { return link == 0 ? "there" : "back"; };
  return network;
}

Candidate candidate(const char* algorithm, std::size_t piece, const Spent& spent) {
  Candidate one{.algorithm = find_algorithm(Collective::all_reduce, algorithm), .piece = piece, .result = {}};
  one.result.seconds = spent.total();
  one.result.spent = spent;
  one.result.piece = piece;
  one.result.chunk = 2 * piece;
  one.result.ranks.resize(2);
  one.result.ranks[1].lanes = 3;
  return one;
}

std::vector<std::string> words(const Network& network, const Candidate& slower, const Candidate& faster) {
  std::vector<std::string> all;
  for (const Difference& one : differences(network, slower, faster)) all.push_back(one.what);
  return all;
}

TEST(Differences, NameWhatTheTimeWentOnMostFirst) {
  const Network network = two_links();
  Candidate slow = candidate("ring", 1024,
                             {.latency = 8e-6,
                              .links = 7e-6,
                              .messages = 6e-6,
                              .copies = 5e-6,
                              .folds = 4e-6,
                              .steps = 3e-6,
                              .hops = 9});
  Candidate fast = candidate("two_shot", 1024,
                             {.latency = 1e-6,
                              .links = 1e-6,
                              .messages = 1e-6,
                              .copies = 1e-6,
                              .folds = 1e-6,
                              .steps = 1e-6,
                              .hops = 2});
  slow.result.ranks[0].messages_sent = 5;
  slow.result.ranks[0].messages_received = 6;
  fast.result.ranks[1].messages_sent = 4;
  slow.result.ranks[0].bytes_folded = 3072;
  fast.result.ranks[0].bytes_folded = 1536;
  slow.result.links = {{.link = 0, .alike = 4, .bytes = 2048}};
  EXPECT_THAT(words(network, slow, fast),
              ElementsAre("messages and credits waited for, one after the other: 9, not 2",
                          "on links; the busiest: 2K on there (and 3 alike), not none",
                          "sending and receiving; messages of a rank, at most: 11, not 4", "copying",
                          "folding; bytes of a rank, at most: 3K, not 1.5K", "steps"));
  // What is equal, and what differs by less than rounding, is not said.
  fast.result.spent = slow.result.spent;
  fast.result.spent.steps -= 1e-15;
  EXPECT_THAT(words(network, slow, fast), ElementsAre());
  // What the slower one spends less on comes last, and numbers that are equal are said once.
  fast.result.spent.hops = slow.result.spent.hops;
  fast.result.spent.latency = 0;
  fast.result.spent.copies = 6e-6;
  EXPECT_THAT(words(network, slow, fast),
              ElementsAre("messages and credits waited for, one after the other: 9 in both", "copying"));
}

TEST(Describe, SaysWhatIsFastestAndWhyNoOther) {
  const Network network = two_links();
  Candidate best = candidate("two_shot", 65536, {.links = 10e-6});
  best.result.links = {{.link = 1, .bytes = 5000}};
  best.result.messages = 12;
  Ranking ranking{.candidates = {best, candidate("two_shot", 1024, {.links = 10e-6}),
                                 candidate("ring", 1024, {.links = 10e-6, .steps = 2.5e-6})},
                  .left_out = {{find_algorithm(Collective::all_reduce, "all_pairs"), 65536, 1.0},
                               {find_algorithm(Collective::all_reduce, "all_pairs"), 262144, 1.0},
                               {find_algorithm(Collective::all_reduce, "double_tree"), 65536, 1.0}}};
  EXPECT_EQ(describe(network, ranking),
            "fastest: two_shot, 3 lanes, chunks of 128K in pieces of 64K, 12 messages: 10.00 us\n"
            "busiest link: 50% back, 4.883K\n"
            "not two_shot in pieces of 1K: 10.00 us, 0.00 us more\n"
            "  it is as fast; of equals, the first in the library's list is taken\n"
            "not ring in pieces of 1K: 12.50 us, 2.50 us more\n"
            "  +2.50 us steps\n"
            "slower, not simulated to the end: all_pairs (64K 256K), double_tree (64K)\n");
  ranking.candidates[2].result.estimated = true;
  EXPECT_THAT(
      describe(network, ranking),
      AllOf(HasSubstr(": 10.00 us\n"), HasSubstr("not ring in pieces of 1K: ~12.50 us, 2.50 us more\n"),
            HasSubstr("\n~: estimated from some of the pieces")));
  Network with_adapters = network;
  with_adapters.adapter = [](Rank) { return 0; };
  ranking.candidates[0].result.by_rank = {0, 1};
  ranking.candidates[0].result.ranks[0].queue_pairs = 3;
  ranking.candidates[0].result.ranks[1].queue_pairs = 2;
  EXPECT_THAT(describe(with_adapters, ranking), HasSubstr("\nqueue pairs of an adapter, at most: 5\n"));
  ranking.candidates.resize(1);
  ranking.candidates[0].result.links.clear();
  ranking.left_out.clear();
  EXPECT_EQ(describe(network, ranking),
            "fastest: two_shot, 3 lanes, chunks of 128K in pieces of 64K, 12 messages: 10.00 us\n");
}

TEST(SizeText, HasBinaryUnits) {
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(size_text(1023), "1023");
  EXPECT_EQ(size_text(1536), "1.5K");
  EXPECT_EQ(size_text(1U << 20U), "1M");
  EXPECT_EQ(size_text(3.0 * (1ULL << 40U)), "3T");
}

}  // namespace
}  // namespace tutti::simulation
