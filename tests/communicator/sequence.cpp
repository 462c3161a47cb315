#include "communicator/sequence.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "communicator/exercise.hpp"

namespace tutti::test {

namespace {

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

}  // namespace

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

void every_operation(Communicator& comm, std::initializer_list<std::size_t> counts) {
  std::uint32_t seed = 1;
  for (const Operation operation : data_operations())
    for (const std::size_t count : counts) {
      const auto type = static_cast<DataType>(seed % data_type_count);
      const auto root = static_cast<Rank>(seed % static_cast<std::uint32_t>(comm.size()));
      expect_right(comm,
                   {.operation = operation, .count = count, .type = type, .root = root, .seed = ++seed});
    }
  comm.barrier();
}

}  // namespace tutti::test
