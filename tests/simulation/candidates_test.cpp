// The ranking of many ranks' candidates, of which those that have lost are given up.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tutti/error.hpp>

#include "simulation/candidates.hpp"
#include "simulation/compare.hpp"
#include "simulation/host_network.hpp"
#include "simulation/uniform.hpp"
#include "simulation/units.hpp"
#include "simulation/world_network.hpp"
#include "topology/builtin.hpp"
#include "topology/world.hpp"

namespace tutti::simulation {
namespace {

Network machines(int count) {
  return network_of(topology::uniform_world(*topology::builtin("dgx-h100"), count));
}

TEST(Candidates, ThatAreGivenUpHaveLost) {
  const Network network = machines(9);
  ASSERT_GT(network.ranks, everybody_up_to);
  const Ranking ranking = rank_candidates(network, {.bytes = 16 * MiB});
  ASSERT_GE(ranking.candidates.size(), 2U);
  const Candidate& runner_up = *runners_up(ranking.candidates).back();
  EXPECT_NE(runner_up.algorithm, ranking.candidates[0].algorithm);
  // Whatever is found by itself, to the end.
  std::map<std::string_view, double> best;
  for (const char* algorithm :
       {"ring", "double_tree", "halving_doubling", "hierarchical", "hierarchical_tree"})
    best[algorithm] =
        rank_candidates(network, {.bytes = 16 * MiB, .algorithm = algorithm}).candidates.at(0).result.seconds;
  const auto faster = [&](double than) {
    return std::ranges::count_if(best, [&](const auto& one) { return one.second < than; });
  };
  EXPECT_EQ(faster(ranking.candidates[0].result.seconds), 0);
  EXPECT_EQ(faster(runner_up.result.seconds), 1);
  EXPECT_EQ(best.at(runner_up.algorithm->name), runner_up.result.seconds);
  int checked = 0;
  for (const LeftOut& one : ranking.left_out) {
    EXPECT_GE(one.at_least, ranking.candidates[1].result.seconds) << one.algorithm->name;
    if (!best.contains(one.algorithm->name)) continue;
    const Ranking alone = rank_candidates(
        network, {.bytes = 16 * MiB, .algorithm = std::string(one.algorithm->name), .piece = one.piece});
    EXPECT_LE(one.at_least, alone.candidates.at(0).result.seconds * (1 + 1e-9)) << one.algorithm->name;
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

TEST(Candidates, OfOneHostAreNotThoseForSeveral) {
  for (const Network& network :
       {host_network(8, {}), hosts_network({.ranks = 8}), hosts_network({.ranks = 8, .size = 2})})
    for (const Collective collective : {Collective::all_reduce, Collective::all_to_all}) {
      const auto all = rank_candidates(network, {.collective = collective, .bytes = 4096}).candidates;
      EXPECT_EQ(
          std::ranges::any_of(all, [](const Candidate& one) { return one.algorithm->by_nodes != nullptr; }),
          network.node_size == 2);
    }
}

TEST(Candidates, AreCutIntoMessagesThatCanBeSent) {
  const auto pieces = [](std::size_t max_message) {
    std::set<std::size_t> found;
    for (const Candidate& one :
         rank_candidates(host_network(2, {}),
                         {.collective = Collective::broadcast, .bytes = 8 * MiB, .max_message = max_message})
             .candidates)
      found.insert(one.result.piece);
    return found;
  };
  EXPECT_THAT(pieces(MiB), testing::ElementsAre(MiB / 16, MiB / 4, MiB));
  EXPECT_THAT(pieces(MiB / 4), testing::ElementsAre(MiB / 16, MiB / 4));
  EXPECT_THAT(pieces(MiB / 8), testing::ElementsAre(MiB / 16, MiB / 8));
}

// The order is that of the times with factors and turns, and what is said of them adds up.
TEST(Candidates, AreRankedAsTheChoiceIs) {
  const Network network = host_network(8, {});
  Question question{.bytes = 4096};
  const std::string_view best = rank_candidates(network, question).candidates.at(0).algorithm->name;
  question.factor = [best](const Algorithm& algorithm) { return algorithm.name == best ? 100 : 2; };
  question.crowd = 4;
  const auto all = rank_candidates(network, question).candidates;
  EXPECT_EQ(all.back().algorithm->name, best);
  ASSERT_GT(all.back().besides, all.back().result.spent.total());
  double explained = 0;
  for (const Difference& one : differences(network, all.back(), all[0])) explained += one.seconds;
  EXPECT_NEAR(explained, all.back().result.seconds - all[0].result.seconds, 1e-9);
  for (const Candidate& one : all)
    EXPECT_DOUBLE_EQ(one.result.seconds, crowded(one.result, 4) * question.factor(*one.algorithm));
}

// Copying to slots can only be spared over a network.
TEST(Views, AreWhereANetworkCarriesMessages) {
  constexpr std::size_t block = MiB;
  const auto copied_by_root = [](const Network& network, bool views) {
    const Algorithm* algorithm = find_algorithm(Collective::scatter, "all_pairs");
    const Workload workload{.collective = Collective::scatter, .bytes = 4 * block, .views = views};
    return simulate(algorithm->make(network.ranks, 0), network, workload).ranks.at(0).bytes_copied;
  };
  const Network shared = host_network(4, {}), apart = hosts_network({.ranks = 4}),
                pairs = hosts_network({.ranks = 4, .size = 2});
  EXPECT_EQ(copied_by_root(shared, true), 3 * block);
  EXPECT_EQ(copied_by_root(apart, false), 3 * block);
  EXPECT_EQ(copied_by_root(apart, true), 0);
  EXPECT_EQ(copied_by_root(pairs, false), 3 * block);
  EXPECT_EQ(copied_by_root(pairs, true), block) << "to the other rank of its host";
}

// A piece as long as the longest chunk does what every longer one would: it comes into question once.
TEST(Candidates, AreSimulatedOnce) {
  const Network network = machines(2);
  for (const Collective collective : {Collective::all_to_all, Collective::all_reduce})
    for (const Candidate& one : rank_candidates(network, {.collective = collective, .bytes = MiB}).candidates)
      if (one.algorithm->name == "pairwise" || one.algorithm->name == "ring") {
        EXPECT_EQ(one.piece, 64U << 10U);
        EXPECT_EQ(one.result.chunk, 64U << 10U);
      }
}

TEST(Candidates, TellTheChunkThatTheScheduleDividesIntoPieces) {
  const Ranking ranking =
      rank_candidates(machines(1), {.bytes = 64 * MiB, .algorithm = "ring", .piece = MiB});
  EXPECT_EQ(ranking.candidates.at(0).result.chunk, 8 * MiB);
  EXPECT_EQ(ranking.candidates.at(0).result.piece, MiB);
}

// Where nothing is made for nodes, what does not grow with the square of the ranks comes into question.
TEST(Candidates, OfManyRanksAreNotTheSimplestOnly) {
  const Network one_a_node = uniform(flat_up_to, 5e-6, 1 / 25e9);
  const auto fastest = [&](Collective collective, std::string algorithm) {
    return rank_candidates(
               one_a_node,
               {.collective = collective, .bytes = MiB, .algorithm = std::move(algorithm), .piece = MiB / 4})
        .candidates.at(0);
  };
  for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
    const double seconds = fastest(collective, "").result.seconds;
    for (const char* algorithm : {"all_pairs", "tree"})
      EXPECT_LE(seconds, fastest(collective, algorithm).result.seconds) << name(collective) << algorithm;
  }
  EXPECT_LE(fastest(Collective::broadcast, "").result.seconds,
            fastest(Collective::broadcast, "chain").result.seconds);
  EXPECT_LE(fastest(Collective::all_reduce, "").result.seconds,
            fastest(Collective::all_reduce, "halving_doubling").result.seconds);
  EXPECT_EQ(fastest(Collective::gather, "").algorithm->name, "all_pairs") << "there is no other";
  EXPECT_EQ(fastest(Collective::all_to_all, "").algorithm->name, "pairwise") << "all others grow as fast";
}

// Even where there is but one other algorithm: a chain is deep, and all pairs are wide.
TEST(Candidates, ThatLoseByFarAreGivenUp) {
  const Network one_a_node = uniform(flat_up_to, 5e-6, 1 / 25e9);
  const auto expect_given_up = [&](Collective collective, std::size_t bytes, std::string_view slow) {
    const Ranking ranking =
        rank_candidates(one_a_node, {.collective = collective, .bytes = bytes, .piece = MiB / 4});
    const double fastest = ranking.candidates.at(0).result.seconds;
    EXPECT_EQ(ranking.candidates.at(0).algorithm->name, "tree") << name(collective);
    const auto given_up = std::ranges::find_if(
        ranking.left_out, [&](const LeftOut& one) { return one.algorithm->name == slow; });
    ASSERT_NE(given_up, ranking.left_out.end()) << name(collective);
    EXPECT_GT(given_up->at_least, fastest) << name(collective);
    const Ranking alone = rank_candidates(
        one_a_node,
        {.collective = collective, .bytes = bytes, .algorithm = std::string(slow), .piece = MiB / 4});
    EXPECT_GT(alone.candidates.at(0).result.seconds, lost_by_far * fastest) << name(collective);
  };
  expect_given_up(Collective::broadcast, MiB / 16, "chain");
  expect_given_up(Collective::reduce, MiB, "all_pairs");
}

// In so many steps, and not in so many seconds: the same are given up on every machine.
TEST(Candidates, ThatTakeTooLongAreGivenUpAndNamed) {
  const Network network = machines(9);
  Question question{.collective = Collective::reduce, .bytes = 64 * MiB, .effort = 0.01};
  const Ranking ranking = rank_candidates(network, question);
  EXPECT_EQ(ranking.candidates.at(0).algorithm->name, "tree");
  const auto two_shot = std::ranges::find_if(
      ranking.left_out, [](const LeftOut& one) { return one.algorithm->name == "two_shot"; });
  ASSERT_NE(two_shot, ranking.left_out.end());
  EXPECT_TRUE(two_shot->too_long);
  EXPECT_GT(two_shot->at_least, 0);
  EXPECT_THAT(describe(ranking.left_out), testing::HasSubstr("perhaps faster, but too long to simulate"));
  question.algorithm = "two_shot";
  EXPECT_THROW(rank_candidates(network, question), Error);
}

// Of few ranks, whose algorithms are all simulated.
TEST(Candidates, ThatTakeLongLeaveEnoughToTheOthers) {
  const Ranking ranking =
      rank_candidates(hosts_network({.ranks = 32}),
                      {.collective = Collective::all_reduce, .bytes = 64 * MiB, .effort = 0.02});
  EXPECT_FALSE(ranking.left_out.empty());
  for (const char* name : {"ring", "doubling", "double_tree", "halving_doubling"})
    EXPECT_TRUE(std::ranges::any_of(ranking.candidates, [&](const Candidate& one) {
      return one.algorithm->name == name;
    })) << name;
}

// Every rank has something for each of the others: they would be ten thousand million FIFOs.
TEST(Candidates, ThatWouldFillTheMemoryAreNotBegun) {
  const Network network = uniform(100'000, 5e-6, 1 / 25e9);
  EXPECT_THROW(rank_candidates(network, {.collective = Collective::all_to_all,
                                         .bytes = MiB,
                                         .algorithm = "pairwise",
                                         .effort = 0.01}),  // or this test would take a gigabyte
               Error);
}

// Of a few ranks as well, where all pieces would be millions of steps.
TEST(Candidates, OfVeryLongBuffersAreToldFromSomePieces) {
  for (const Collective collective : {Collective::all_reduce, Collective::all_to_all}) {
    const Candidate one =
        rank_candidates(machines(1), {.collective = collective, .bytes = 16384 * MiB, .piece = MiB / 16})
            .candidates.at(0);
    EXPECT_LT(one.result.events, some_pieces_from) << name(collective);
    EXPECT_GT(one.result.messages, some_pieces_from) << name(collective);
  }
}

// Of a ring, the first and the last rank of a host reach another one, by the adapter that all four share.
TEST(QueuePairs, OfASharedAdapterAreThoseOfTheRanksThatHaveSome) {
  for (const int ranks : {8, everybody_up_to + 16}) {
    const Network network = hosts_network({.ranks = ranks, .size = 4, .rdma = true});
    const auto pairs = [&](Collective collective, const char* algorithm) {
      const Ranking ranking =
          rank_candidates(network, {.collective = collective, .bytes = MiB, .algorithm = algorithm});
      return queue_pairs_per_adapter(network, ranking.candidates.at(0).result);
    };
    EXPECT_EQ(pairs(Collective::all_reduce, "ring"), 2) << ranks;
    EXPECT_EQ(pairs(Collective::all_to_all, "pairwise"), 4 * (ranks - 4)) << ranks;
  }
}

TEST(Candidates, OfTenThousandRanksAreSimulated) {
  const Network network = machines(1280);
  const Ranking ranking =
      rank_candidates(network, {.bytes = 64 * MiB, .algorithm = "hierarchical", .piece = MiB});
  const Candidate& ring = ranking.candidates.at(0);
  EXPECT_EQ(ring.result.members, std::vector<int>{10'240});
  EXPECT_EQ(queue_pairs_per_adapter(network, ring.result), 2);
  // Every rank: 7 messages into its node and 1 along the rail a hop, of 1,280 hops to reduce but the last
  // one, which goes round again; then the same to give away.
  EXPECT_EQ(ring.result.messages, 10'240U * 2 * (7 * 1280 + 1279));
}

}  // namespace
}  // namespace tutti::simulation
