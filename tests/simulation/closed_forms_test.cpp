// The simulator against formulas that can be derived by hand, on links that are all alike.
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include <tutti/error.hpp>

#include "collectives/algorithms.hpp"
#include "simulation/simulate.hpp"
#include "simulation/uniform.hpp"

namespace tutti::simulation {
namespace {

constexpr double alpha = 5e-6, beta = 1 / 25e9, gamma = 1 / 200e9;
constexpr double per_mille = 1e-3;

double simulated(Collective collective, const char* algorithm, int ranks, std::size_t bytes,
                 std::size_t piece = std::size_t{1} << 30) {
  const Network network = uniform(ranks, alpha, beta, gamma);
  const Schedule schedule = find_algorithm(collective, algorithm)->make(ranks, 0);
  return simulate(schedule, network, {.collective = collective, .bytes = bytes, .piece = piece}).seconds;
}

void expect_formula(double found, double formula) { EXPECT_NEAR(found / formula, 1, per_mille); }

class ClosedForms : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ClosedForms, testing::Values(2, 3, 4, 7, 8, 16, 31, 64),
                         testing::PrintToStringParamName());
class PowersOfTwo : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PowersOfTwo, testing::Values(2, 4, 8, 16, 64, 256),
                         testing::PrintToStringParamName());

std::size_t divisible(int ranks) { return std::size_t{64} * 4096 * static_cast<std::size_t>(ranks); }

TEST_P(ClosedForms, RingAllReduce) {
  const int n = GetParam();
  const double bytes = static_cast<double>(divisible(n)), chunk = bytes / n;
  expect_formula(simulated(Collective::all_reduce, "ring", n, divisible(n)),
                 2 * (n - 1) * (alpha + chunk * beta) + (n - 1) * chunk * gamma);
}

TEST_P(ClosedForms, RingReduceScatterAndAllGather) {
  const int n = GetParam();
  const double chunk = static_cast<double>(divisible(n)) / n;
  expect_formula(simulated(Collective::reduce_scatter, "ring", n, divisible(n)),
                 (n - 1) * (alpha + chunk * (beta + gamma)));
  expect_formula(simulated(Collective::all_gather, "ring", n, divisible(n)),
                 (n - 1) * (alpha + chunk * beta));
}

TEST_P(PowersOfTwo, HalvingDoubling) {
  const int n = GetParam();
  const double bytes = static_cast<double>(divisible(n)), rounds = std::log2(n);
  expect_formula(simulated(Collective::all_reduce, "halving_doubling", n, divisible(n)),
                 2 * rounds * alpha + bytes * (n - 1) / n * (2 * beta + gamma));
}

// A rank sends to all its children at once, and they share its port: of a rank with k children, each has its
// piece after k B beta. The longest way goes through those with L, L - 1, ... 1 children.
TEST_P(PowersOfTwo, BinomialTree) {
  const int n = GetParam();
  const double bytes = static_cast<double>(divisible(n)), rounds = std::log2(n);
  expect_formula(simulated(Collective::broadcast, "tree", n, divisible(n)),
                 rounds * alpha + rounds * (rounds + 1) / 2 * bytes * beta);
}

TEST_P(ClosedForms, ChainOfPieces) {
  const int n = GetParam();
  const std::size_t piece = std::size_t{1} << 20, pieces = 40;
  const double one = static_cast<double>(piece) * beta;
  expect_formula(simulated(Collective::broadcast, "chain", n, piece * pieces, piece),
                 (n - 1) * (alpha + one) + (pieces - 1) * one);
}

// Every rank sends to all others at once: its own port is what it waits for.
TEST_P(ClosedForms, AllPairsShareTheirPorts) {
  const int n = GetParam();
  const double chunk = static_cast<double>(divisible(n)) / n;
  expect_formula(simulated(Collective::all_to_all, "pairwise", n, divisible(n)),
                 alpha + (n - 1) * chunk * beta);
}

TEST_P(ClosedForms, Barrier) {
  const int n = GetParam();
  expect_formula(simulated(Collective::barrier, "dissemination", n, 0),
                 std::bit_width(static_cast<unsigned>(n - 1)) * alpha);
}

// One thread that does everything itself: the messages' overheads are its time.
TEST(Processor, OfOneThreadDoesOneThingAfterTheOther) {
  Network network = uniform(8, 0, 1e-15);
  network.processor = {.step = 3e-6, .serial = true};
  network.costs[0].send_overhead = 1e-6;
  network.costs[0].receive_overhead = 2e-6;
  const Schedule schedule = find_algorithm(Collective::all_to_all, "pairwise")->make(8, 0);
  const Workload workload{.collective = Collective::all_to_all, .bytes = 8 * 4096};
  expect_formula(simulate(schedule, network, workload).seconds, 7 * 4e-6 + 3e-6 + 7 * 5e-6);
  network.processor.serial = false;  // both lanes side by side: the receives after the last message
  EXPECT_LT(simulate(schedule, network, workload).seconds, 7 * 4e-6 + 3e-6 + 7 * 5e-6);
}

TEST(Gap, KeepsMessagesApart) {
  Network network = uniform(2, alpha, beta);
  network.costs[0].gap = 1e-5;
  const Schedule schedule = find_algorithm(Collective::broadcast, "chain")->make(2, 0);
  network.costs[0].credits = 1000;
  expect_formula(
      simulate(schedule, network, {.collective = Collective::broadcast, .bytes = 6400, .piece = 64}).seconds,
      alpha + 100 * (1e-5 + 64 * beta));
}

// With one credit, a message waits until the one before has been taken and its sender knows.
TEST(Credits, BoundTheMessagesUnderWay) {
  Network network = uniform(2, alpha, beta);
  network.costs[0].credits = 1;
  const Schedule schedule = find_algorithm(Collective::broadcast, "chain")->make(2, 0);
  const double one = 1e6 * beta;
  expect_formula(simulate(schedule, network,
                          {.collective = Collective::broadcast, .bytes = 64'000'000, .piece = 1'000'000})
                     .seconds,
                 64 * (one + alpha) + 63 * alpha);
}

TEST(Incast, NarrowsALinkThatManyShare) {
  Network network = uniform(9, alpha, beta);
  const Schedule schedule = find_algorithm(Collective::gather, "all_pairs")->make(9, 0);
  const Workload workload{.collective = Collective::gather, .bytes = 9 * 1024 * 1024};
  const double fair = simulate(schedule, network, workload).seconds;
  expect_formula(fair, alpha + 8 * 1024 * 1024 * beta);
  network.incast = 0.1;
  expect_formula(simulate(schedule, network, workload).seconds - alpha, (fair - alpha) * (1 + 0.7));
}

TEST(QueuePairs, BeyondTheCacheCostTime) {
  Network network = uniform(9, alpha, beta);
  network.costs[0].network = true;
  const Schedule schedule = find_algorithm(Collective::all_to_all, "pairwise")->make(9, 0);
  const Workload workload{.collective = Collective::all_to_all, .bytes = 9 * 64};
  const Result fast = simulate(schedule, network, workload);
  EXPECT_EQ(fast.ranks[0].queue_pairs, 8);
  network.queue_pairs_cached = 4;
  network.queue_pair_miss = 1e-6;
  expect_formula(simulate(schedule, network, workload).seconds - fast.seconds, 8 * 0.5e-6);
  // Three ranks share an adapter, and what it caches.
  network.adapter = [](Rank rank) { return rank / 3; };
  network.queue_pairs_cached = 3 * 4;
  expect_formula(simulate(schedule, network, workload).seconds - fast.seconds, 8 * 0.5e-6);
  network.queue_pairs_cached = 3 * 8;
  EXPECT_EQ(simulate(schedule, network, workload).seconds, fast.seconds);
}

TEST(Deadlock, IsAnError) {
  Network network = uniform(3, alpha, beta);
  network.costs[0].credits = 1;  // rings need two
  const Schedule schedule = find_algorithm(Collective::all_reduce, "ring")->make(3, 0);
  EXPECT_THROW(simulate(schedule, network, {.bytes = 3 << 20, .piece = 64 << 10}), Error);
}

}  // namespace
}  // namespace tutti::simulation
