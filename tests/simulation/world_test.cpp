// Well-known machines.
#include <gtest/gtest.h>

#include <tutti/error.hpp>

#include "simulation/candidates.hpp"
#include "simulation/units.hpp"
#include "simulation/world_network.hpp"
#include "topology/builtin.hpp"
#include "topology/world.hpp"

namespace tutti::simulation {
namespace {

Network machines(const char* name, int count) {
  return network_of(topology::uniform_world(*topology::builtin(name), count));
}

// Eight H100 have 18 NVLinks each: no algorithm without the switches' help beats them.
TEST(World, TwoShotOfADgxFillsItsNvlinks) {
  const Network network = machines("dgx-h100", 1);
  const auto found =
      rank_candidates(network, {.bytes = 1024 * MiB, .algorithm = "two_shot", .piece = MiB / 4});
  const double bus = 1024.0 * MiB * 2 * 7 / 8 / found.candidates.at(0).result.seconds / 1e9;
  EXPECT_GT(bus, 350);
  EXPECT_LT(bus, 18 * 20.6 + 0.1);
}

// Between nodes all eight adapters carry the data; a flat ring has one of them a node.
TEST(World, HierarchyUsesEveryAdapter) {
  const Network network = machines("dgx-h100", 4);
  const auto time = [&](const char* algorithm) {
    return rank_candidates(network, {.bytes = 256 * MiB, .algorithm = algorithm, .piece = MiB / 4})
        .candidates.at(0)
        .result.seconds;
  };
  EXPECT_LT(time("hierarchical") * 4, time("ring"));
  EXPECT_LT(time("hierarchical_tree") * 4, time("ring"));
}

TEST(World, TwoStepAllToAllNeedsAQueuePairANode) {
  const Network network = machines("dgx-h100", 16);
  const auto pairs = [&](const char* algorithm) {
    return queue_pairs_per_adapter(network, rank_candidates(network, {.collective = Collective::all_to_all,
                                                                      .bytes = 128 * 1024,
                                                                      .algorithm = algorithm,
                                                                      .piece = 1024})
                                                .candidates.at(0)
                                                .result);
  };
  EXPECT_EQ(pairs("hierarchical"), 15);
  EXPECT_EQ(pairs("pairwise"), 120);
}

TEST(World, OfARackIsOneNvlinkDomain) {
  const Network network = machines("nvl72", 4);
  EXPECT_EQ(network.route(0, 15).cost, network.route(0, 1).cost);
  const Network two_racks = machines("nvl72", 36);
  EXPECT_TRUE(two_racks.costs[static_cast<std::size_t>(two_racks.route(0, 143).cost)].network);
}

// As `means` says of it.
TEST(World, WhoIsNotOnTheSwitchOfItsRackTakesTheNetwork) {
  topology::Machine tray = *topology::builtin("nvl72");
  const topology::NodeId cut_off = tray.find("gpu3");
  std::erase_if(tray.links, [&](const topology::Link& link) {
    return link.kind == topology::LinkKind::nvlink && (link.a == cut_off || link.b == cut_off);
  });
  const Network network = network_of(topology::uniform_world(tray, 2));
  const auto cost = [&](Rank from, Rank to) {
    return network.costs[static_cast<std::size_t>(network.route(from, to).cost)];
  };
  EXPECT_FALSE(cost(0, 5).network);
  for (const Rank to : {5, 7}) {
    EXPECT_TRUE(cost(3, to).network);
    EXPECT_TRUE(cost(to, 3).network);
  }
  EXPECT_GT(cost(3, 7).alpha, 0);
}

// Whoever is joined to whom, and however: a message takes some time.
TEST(World, EveryWayHasALatency) {
  topology::World mixed = topology::uniform_world(*topology::builtin("dgx-h100"), 2);
  topology::add_hosts(mixed, *topology::builtin("nvl72"), 2);
  for (const Network& network : {machines("dgx-h100", 3), machines("nvl72", 19), network_of(mixed)})
    for (Rank from = 0; from < network.ranks; from += 3)
      for (Rank to = 0; to < network.ranks; ++to) {
        if (from == to) continue;
        const PathCost& cost = network.costs[static_cast<std::size_t>(network.route(from, to).cost)];
        EXPECT_GT(cost.alpha, 0) << from << " to " << to;
      }
}

TEST(World, OfMoreLinksThanCanBeNumberedIsAnError) {
  topology::World world;
  world.machines.emplace_back().links.resize(topology::most_links);
  world.hosts.resize((std::size_t{1} << 30U) / topology::most_links);  // each link has two directions
  EXPECT_THROW(network_of(world), Error);
}

TEST(World, UnknownAlgorithmsAreAnError) {
  const Network network = machines("pcie-box", 1);
  EXPECT_THROW(rank_candidates(network, {.bytes = MiB, .algorithm = "bruck"}), Error);
  EXPECT_THROW(rank_candidates(network, {.bytes = MiB, .algorithm = "direct"}), Error);
}

}  // namespace
}  // namespace tutti::simulation
