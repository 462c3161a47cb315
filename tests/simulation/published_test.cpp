// Predictions beside published figures. docs/simulation.md states the errors; here they are computed, so that
// a change of the model shows.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "simulation/candidates.hpp"
#include "simulation/units.hpp"
#include "simulation/world_network.hpp"
#include "topology/builtin.hpp"
#include "topology/world.hpp"

namespace tutti::simulation {
namespace {

Candidate best(Collective collective, int nodes, std::size_t bytes, const std::string& algorithm = "",
               std::size_t piece = 0) {
  const Network network = network_of(topology::uniform_world(*topology::builtin("dgx-h100"), nodes));
  return rank_candidates(network,
                         {.collective = collective, .bytes = bytes, .algorithm = algorithm, .piece = piece})
      .candidates.at(0);
}

/// GB/s as nccl-tests' busbw.
double bus(const Candidate& candidate, double bytes, int ranks, double factor) {
  return bytes * factor * (ranks - 1) / ranks / candidate.result.seconds / 1e9;
}

/// Per cent, rounded.
int error(double predicted, double published) {
  return static_cast<int>(std::lround(100 * (predicted / published - 1)));
}

TEST(Published, RingOnEightH100) {
  const double ring = bus(best(Collective::all_reduce, 1, 1024 * MiB, "ring", 4 * MiB), 1024.0 * MiB, 8, 2);
  EXPECT_EQ(error(ring, 370), -3) << ring;
  EXPECT_EQ(error(ring, 365), -2) << ring;
}

TEST(Published, TwoNodesWithoutTheSwitchesHelp) {
  const double two =
      bus(best(Collective::all_reduce, 2, 1024 * MiB, "hierarchical_tree", MiB), 1024.0 * MiB, 16, 2);
  EXPECT_EQ(error(two, 470), -16) << two;
}

TEST(Published, AllToAllAtScale) {
  const double a_gpu =
      bus(best(Collective::all_to_all, 16, 1024 * MiB, "pairwise", MiB / 4), 1024.0 * MiB, 128, 1);
  EXPECT_EQ(error(a_gpu, 48), 6) << a_gpu;
}

// NCCL's tuner counts 0.6 us a hop of a small message over NVLink and 2.7 over the network, in its shortest
// protocol (src/graph/tuning.cc). Those are the latencies here; what sending, receiving and a step take is
// assumed and comes on top.
TEST(Published, HopsOfSmallMessages) {
  const auto a_hop = [](int nodes, int ranks_per_node, double Spent::*part) {
    const Network network =
        network_of(topology::uniform_world(*topology::builtin("dgx-h100"), nodes, ranks_per_node));
    const Result ring = rank_candidates(network, {.bytes = 64, .algorithm = "ring"}).candidates.at(0).result;
    const double seconds = part == nullptr ? ring.seconds : ring.spent.*part;
    return seconds / static_cast<double>(ring.spent.hops) * 1e6;
  };
  EXPECT_EQ(error(a_hop(1, 8, &Spent::latency), 0.6), 0);
  EXPECT_EQ(error(a_hop(2, 1, &Spent::latency), 2.7), 0);
  EXPECT_EQ(error(a_hop(1, 8, nullptr), 0.6), 126);
  EXPECT_EQ(error(a_hop(2, 1, nullptr), 2.7), 30);
}

}  // namespace
}  // namespace tutti::simulation
