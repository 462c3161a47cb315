// Queue pairs that exist once the FIFOs of a schedule do are those that the simulator counts.
#include <gtest/gtest.h>

#include <ostream>

#include "collectives/algorithms.hpp"
#include "execution/lower.hpp"
#include "simulation/host_network.hpp"
#include "simulation/simulate.hpp"
#include "transport_channels.hpp"
#include "verbs_ranks.hpp"

namespace tutti::transport::testing {

namespace {

constexpr int node_size = 2;

void expect_queue_pairs(const Algorithm& algorithm, int ranks, int rails) {
  SCOPED_TRACE(::testing::Message() << name(algorithm.collective) << " " << algorithm.name << ", " << ranks
                                    << " ranks, " << rails << " rails");
  const Schedule schedule = algorithm.make(ranks, 0, node_size);
  const simulation::Workload workload{.collective = algorithm.collective, .bytes = 6720, .piece = 64 << 10};
  const auto predicted =
      simulation::simulate(schedule, simulation::hosts_network({.ranks = ranks, .rdma = true}), workload);
  const Transports transports = fake_ranks(ranks, rails);
  for (Rank r = 0; r < ranks; ++r) {
    TransportChannels ends(*transports[static_cast<std::size_t>(r)]);
    (void)execution::lower(schedule, execution::overview_of(schedule), r,
                           simulation::shape_of(schedule, workload),
                           {.piece = workload.piece, .max_message = 64 << 10}, ends);
  }
  const auto pairs = [&](Rank r) { return transports[static_cast<std::size_t>(r)]->traffic().queue_pairs; };
  const auto expected = [&](Rank r) {
    return static_cast<std::uint64_t>(predicted.ranks[static_cast<std::size_t>(r)].queue_pairs * rails);
  };
  // Connections come about while ranks make progress.
  eventually(transports, [&] {
    for (Rank r = 0; r < ranks; ++r)
      if (pairs(r) < expected(r)) return false;
    return true;
  });
  for (Rank r = 0; r < ranks; ++r) EXPECT_EQ(pairs(r), expected(r)) << "rank " << r;
}

class VerbsQueuePairs : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, VerbsQueuePairs, ::testing::Range(2, 9), ::testing::PrintToStringParamName());

TEST_P(VerbsQueuePairs, AreThoseOfTheSimulator) {
  for (const Algorithm& algorithm : algorithms())
    if (!algorithm.one_sided && algorithm.collective != Collective::gather &&
        algorithm.collective != Collective::scatter && algorithm.collective != Collective::reduce)
      expect_queue_pairs(algorithm, GetParam(), 1);
}

TEST(VerbsQueuePair, IsOneARail) {
  for (const int rails : {2, 4})
    expect_queue_pairs(*find_algorithm(Collective::all_to_all, "pairwise"), 3, rails);
}

}  // namespace

}  // namespace tutti::transport::testing
