// Representatives against everybody.
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include <tutti/error.hpp>

#include "collectives/algorithms.hpp"
#include "simulation/simulate.hpp"
#include "simulation/uniform.hpp"

namespace tutti {

void PrintTo(const Algorithm& algorithm, std::ostream* stream) {
  *stream << name(algorithm.collective) << ' ' << algorithm.name;
}

namespace simulation {
namespace {

// Ports of ranks, and a port of each node that its ranks share.
Network nodes(int count, int size) {
  Network network = uniform(count * size, 1e-6, 1 / 100e9, 1 / 500e9);
  network.node_size = size;
  const int first = static_cast<int>(network.bandwidth.size());
  for (int i = 0; i < 2 * count; ++i) network.bandwidth.push_back(30e9);
  network.costs.push_back({.alpha = 4e-6, .copies = false, .network = true});
  network.route = [=](Rank from, Rank to) {
    Route route;
    route.cross(2 * from);
    if (from / size != to / size) {
      route.cost = 1;
      route.cross(first + 2 * (from / size));
      route.cross(first + 2 * (to / size) + 1);
    }
    route.cross(2 * to + 1);
    return route;
  };
  return network;
}

class Representatives : public testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(Collectives, Representatives,
                         testing::ValuesIn(algorithms().begin(), algorithms().end()), [](const auto& test) {
                           return std::string(name(test.param.collective)) + "_" +
                                  std::string(test.param.name);
                         });

TEST_P(Representatives, AreSimulatedAsEverybodyIs) {
  for (const auto& nodes_of : {std::pair{8, 4}, {5, 3}, {1, 8}, {16, 1}}) {
    const int count = nodes_of.first, size = nodes_of.second;
    const Network network = nodes(count, size);
    const int n = count * size;
    const Workload workload{.collective = GetParam().collective,
                            .bytes = static_cast<std::size_t>(n) * 4 * 4096,  // equal chunks for all of them
                            .piece = 4096};
    const auto make = [&] { return GetParam().make(n, 0, size); };
    if (GetParam().one_sided) {
      EXPECT_THROW(Alike(make, network), Error);
      continue;
    }
    const Result all = simulate(make(), network, workload);
    const Result some = Alike(make, network).run(workload);
    EXPECT_NEAR(some.seconds / all.seconds, 1, 1e-9) << count << " nodes of " << size;
    EXPECT_EQ(some.messages, all.messages);
    std::size_t members = 0;
    for (std::size_t i = 0; i < some.representatives.size(); ++i) {
      members += static_cast<std::size_t>(some.members[i]);
      const RankCounts& one = some.ranks[i];
      const RankCounts& same = all.ranks[static_cast<std::size_t>(some.representatives[i])];
      EXPECT_EQ(one.bytes_sent, same.bytes_sent);
      EXPECT_EQ(one.messages_received, same.messages_received);
      EXPECT_EQ(one.queue_pairs, same.queue_pairs);
      EXPECT_NEAR(one.done, same.done, 1e-9 * all.seconds);
    }
    EXPECT_EQ(members, static_cast<std::size_t>(n));
    double bytes = 0, bytes_alike = 0;
    for (const LinkCounts& link : all.links) bytes += link.bytes;
    for (const LinkCounts& link : some.links) bytes_alike += link.bytes * link.alike;
    EXPECT_NEAR(bytes_alike / std::max(bytes, 1.0), all.links.empty() || bytes == 0 ? 0 : 1, 1e-9);
  }
}

// Less than a cache line for each chunk: two elements.
TEST(Kinds, SendNoMoreOfAShortBufferThanEverybody) {
  const Network network = nodes(8, 4);
  const Workload workload{.bytes = 32 * 8};
  for (const char* algorithm : {"ring", "two_shot"}) {
    const auto make = [&] { return find_algorithm(Collective::all_reduce, algorithm)->make(32, 0); };
    const Result all = simulate(make(), network, workload), some = Alike(make, network).run(workload);
    EXPECT_EQ(all.ranks[0].bytes_sent, 2U * 31 * 8) << algorithm;
    EXPECT_EQ(some.ranks[0].bytes_sent, 2U * 31 * 8) << algorithm;
    EXPECT_NEAR(some.seconds / all.seconds, 1, 1e-9) << algorithm;
  }
}

TEST(Kinds, OfASymmetricAlgorithmAreFew) {
  const Network network = nodes(32, 8);
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_to_all, Collective::all_gather}) {
    const Result result =
        Alike([&] { return find_algorithm(collective, "hierarchical")->make(256, 0, 8); }, network)
            .run({.collective = collective, .bytes = 256 * 4096});
    EXPECT_EQ(result.representatives.size(), 1U) << name(collective);
    EXPECT_EQ(result.ranks[0].queue_pairs, collective == Collective::all_to_all ? 31 : 2);
  }
}

}  // namespace
}  // namespace simulation
}  // namespace tutti
