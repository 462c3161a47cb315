// Random sequences of operations. A failure names the seed: set TUTTI_TEST_SEED to repeat it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

unsigned chosen_seed() {
  const char* text = std::getenv("TUTTI_TEST_SEED");
  return text == nullptr ? std::random_device{}() : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

Exercise random_exercise(std::mt19937& random, int ranks) {
  const auto below = [&](std::size_t limit) { return random() % limit; };
  Exercise e;
  e.operation = data_operations()[below(data_operations().size())];
  e.count = below(3) == 0 ? below(4) : below(3) == 0 ? below(40'000) : below(1500);
  e.type = static_cast<DataType>(below(data_type_count));
  if (reduces(e.operation)) e.reduction = static_cast<ReduceOp>(below(reduce_op_count));
  e.root = static_cast<Rank>(below(static_cast<std::size_t>(ranks)));
  e.seed = static_cast<std::uint32_t>(random());
  e.in_place = can_be_in_place(e.operation) && below(2) == 0;
  return e;
}

void run_sequence(Communicator& comm, unsigned seed, int length) {
  std::mt19937 random(seed);  // the same on all ranks
  struct Outstanding {
    std::unique_ptr<Trial> trial;
    Work work;
  };
  std::vector<Outstanding> outstanding;
  const auto finish = [&] {
    for (auto& one : outstanding) {
      one.work.wait();
      EXPECT_EQ(one.trial->wrong(), "");
    }
    outstanding.clear();
  };
  Async async = comm.async();
  for (int i = 0; i < length; ++i) {
    auto trial = std::make_unique<Trial>(random_exercise(random, comm.size()), comm.rank(), comm.size());
    if (random() % 3 == 0) {
      Work work = issue(async, trial->call());
      outstanding.push_back({std::move(trial), std::move(work)});
      if (outstanding.size() > random() % 6) finish();
    } else {
      issue(comm, trial->call());
      EXPECT_EQ(trial->wrong(), "");
    }
    if (random() % 10 == 0) comm.barrier();
  }
  finish();
}

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
