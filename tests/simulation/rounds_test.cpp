// A few rounds against all of them.
#include "simulation/rounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "collectives/algorithms.hpp"
#include "simulation/candidates.hpp"
#include "simulation/simulate.hpp"
#include "simulation/uniform.hpp"
#include "simulation/units.hpp"
#include "simulation/world_network.hpp"
#include "topology/builtin.hpp"
#include "topology/world.hpp"

namespace tutti::simulation {
namespace {

constexpr double per_cent = 1e-2;
constexpr std::size_t short_piece = MiB / 16;

struct Pipeline {
  Collective collective;
  const char* algorithm;
  bool blocks = false;  ///< one for every rank
};
constexpr Pipeline pipelines[] = {{Collective::broadcast, "chain"},
                                  {Collective::broadcast, "tree"},
                                  {Collective::reduce, "tree"},
                                  {Collective::all_reduce, "double_tree"},
                                  {Collective::all_gather, "ring", true},
                                  {Collective::reduce_scatter, "ring", true},
                                  {Collective::all_to_all, "pairwise", true}};

// `blocks`: one for every rank, or one buffer.
Workload many_pieces(const Pipeline& pipeline, std::size_t pieces, int blocks = 1) {
  const auto chunks = static_cast<std::size_t>(std::string(pipeline.algorithm) == "double_tree" ? 2 : blocks);
  return {.collective = pipeline.collective,
          .bytes = pieces * chunks * short_piece - 1024,  // the last pieces are shorter
          .piece = short_piece};
}

Workload extrapolated(Workload workload) {
  workload.extrapolates = true;
  return workload;
}

void expect_same_counts(const RankCounts& some, const RankCounts& all) {
  EXPECT_EQ(some.messages_sent, all.messages_sent);
  EXPECT_EQ(some.bytes_sent, all.bytes_sent);
  EXPECT_EQ(some.messages_received, all.messages_received);
  EXPECT_EQ(some.bytes_received, all.bytes_received);
  EXPECT_EQ(some.bytes_copied, all.bytes_copied);
  EXPECT_EQ(some.bytes_folded, all.bytes_folded);
  EXPECT_EQ(some.buffer_bytes, all.buffer_bytes);
  EXPECT_NEAR(some.busy, all.busy, 1e-6 * all.busy);
}

void expect_alike(const Result& some, const Result& all) {
  EXPECT_NEAR(some.seconds, all.seconds, per_cent * all.seconds);
  EXPECT_NEAR(some.spent.total(), some.seconds, per_cent * all.seconds);
  EXPECT_NEAR(some.steady.total(), some.seconds, per_cent * all.seconds);
  EXPECT_EQ(some.messages, all.messages);
  ASSERT_EQ(some.ranks.size(), all.ranks.size());
  for (std::size_t r = 0; r < all.ranks.size(); ++r) {
    expect_same_counts(some.ranks[r], all.ranks[r]);
    EXPECT_LE(some.ranks[r].done, some.seconds);
  }
  ASSERT_EQ(some.links.size(), all.links.size());
  for (const LinkCounts& link : all.links) {
    const auto same =
        std::ranges::find_if(some.links, [&](const LinkCounts& l) { return l.link == link.link; });
    ASSERT_NE(same, some.links.end());
    EXPECT_NEAR(same->bytes, link.bytes, 1e-6 * link.bytes);
  }
}

// On ports that are all alike, and on two machines with their links and adapters.
TEST(Rounds, AFewTellWhatAllTake) {
  const Network ports = uniform(13, 5e-6, 1 / 25e9, 1 / 200e9);
  const Network two = network_of(topology::uniform_world(*topology::builtin("dgx-h100"), 2));
  for (const auto& [where, network] : {std::pair{"ports", &ports}, {"machines", &two}})
    for (const Pipeline& pipeline : pipelines) {
      SCOPED_TRACE(std::string(name(pipeline.collective)) + " " + pipeline.algorithm + " on " + where);
      const Schedule schedule =
          find_algorithm(pipeline.collective, pipeline.algorithm)->make(network->ranks, 0);
      for (const std::size_t pieces : {100, 301}) {
        const Workload workload = many_pieces(pipeline, pieces, pipeline.blocks ? network->ranks : 1);
        expect_alike(simulate(schedule, *network, extrapolated(workload)),
                     simulate(schedule, *network, workload));
      }
    }
}

// (n - 1) (alpha + B beta) until the first piece is there, then B beta each; closed_forms_test.cpp.
TEST(Rounds, OfAChainAreThoseOfTheFormula) {
  constexpr double alpha_of_chain = 5e-6, beta_of_chain = 1 / 25e9;
  const Network network = uniform(16, alpha_of_chain, beta_of_chain);
  const Schedule schedule = find_algorithm(Collective::broadcast, "chain")->make(16, 0);
  const Workload workload{.collective = Collective::broadcast, .bytes = 1000 * MiB, .piece = MiB};
  const Result some = simulate(schedule, network, extrapolated(workload));
  const double one = static_cast<double>(MiB) * beta_of_chain;
  EXPECT_NEAR(some.seconds / (15 * (alpha_of_chain + one) + 999 * one), 1, 1e-4);
  EXPECT_LT(some.events, simulate(schedule, network, workload).events / 10);
}

TEST(Rounds, ThatAreFewAreAllSimulated) {
  const Network network = uniform(5, 5e-6, 1 / 25e9);
  const Schedule schedule = find_algorithm(Collective::broadcast, "chain")->make(5, 0);
  const Workload workload = many_pieces(pipelines[0], 64);
  const Result all = simulate(schedule, network, workload),
               asked = simulate(schedule, network, extrapolated(workload));
  EXPECT_EQ(asked.seconds, all.seconds);
  EXPECT_EQ(asked.events, all.events);
}

TEST(Rounds, AreGivenUpAtALimit) {
  const Network network = uniform(5, 5e-6, 1 / 25e9);
  const Schedule schedule = find_algorithm(Collective::broadcast, "chain")->make(5, 0);
  const Workload workload = extrapolated(many_pieces(pipelines[0], 500));
  const double seconds = simulate(schedule, network, workload).seconds;
  for (const double part : {0.01, 0.5, 0.99}) {
    const Result lost = simulate(schedule, network, workload, {.seconds = part * seconds});
    EXPECT_FALSE(lost.finished) << part;
    EXPECT_LE(lost.seconds, seconds) << part;
    EXPECT_GE(lost.seconds, part * seconds) << part;
  }
  EXPECT_TRUE(simulate(schedule, network, workload, {.seconds = 1.01 * seconds}).finished);
}

// Beyond `everybody_up_to` ranks, where every piece of a tree would be one of thousands.
TEST(Rounds, OfManyRanksAreNotAllSimulated) {
  const Network network = uniform(everybody_up_to + 8, 5e-6, 1 / 25e9);
  const Candidate one =
      rank_candidates(
          network,
          {.collective = Collective::broadcast, .bytes = 16 * MiB, .algorithm = "tree", .piece = short_piece})
          .candidates.at(0);
  const Result all =
      simulate(find_algorithm(Collective::broadcast, "tree")->make(network.ranks, 0), network,
               {.collective = Collective::broadcast, .bytes = 16 * MiB, .piece = short_piece, .views = true});
  EXPECT_LT(one.result.events, all.events / 2);
  EXPECT_EQ(one.result.messages, all.messages);
  EXPECT_NEAR(one.result.seconds, all.seconds, per_cent * all.seconds);
}

}  // namespace
}  // namespace tutti::simulation
