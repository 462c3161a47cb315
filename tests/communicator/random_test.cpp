// Random sequences of operations. A failure names the seed: set TUTTI_TEST_SEED to repeat it.
#include <gtest/gtest.h>

#include "communicator/ranks.hpp"
#include "communicator/seed.hpp"
#include "communicator/sequence.hpp"

namespace tutti::test {
namespace {

class Random : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Local, Random,
                         testing::Combine(testing::Values("shm", "tcp"),
                                          testing::Values(2, 3, 4, 5, 6, 7, 8)),
                         transport_and_ranks);

TEST_P(Random, SequencesOfOperations) {
  const auto [transport, ranks] = GetParam();
  const unsigned seed = chosen_seed();
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(seed));
  RecordProperty("seed", std::to_string(seed));
  std::printf("seed %u\n", seed);
  run_local(
      ranks, [&](Communicator& comm) { run_sequence(comm, seed, 100); }, over(transport));
}

TEST(RandomProcesses, SequencesOfOperations) {
  const unsigned seed = chosen_seed();
  std::printf("seed %u\n", seed);
  run_processes(3, over("shm"), [&](Communicator& comm) { run_sequence(comm, seed, 100); });
}

}  // namespace
}  // namespace tutti::test
