// Every operation against the reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectives/algorithms.hpp"
#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

class Operations : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Local, Operations,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(1, 2, 3, 5, 7, 8)),
                         transport_and_ranks);

TEST_P(Operations, AreRightForAllCountsInAndOutOfPlace) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        std::uint32_t seed = 1;
        for (const Operation operation : data_operations())
          for (const std::size_t count : {0, 1, 37, 1000, 40000})
            for (const bool in_place : {false, true}) {
              if (in_place && !can_be_in_place(operation)) continue;
              ++seed;
              const auto root = static_cast<Rank>(seed) % comm.size();
              expect_right(
                  comm,
                  {.operation = operation, .count = count, .in_place = in_place, .root = root, .seed = seed});
            }
        comm.barrier();
      },
      over(transport));
}

TEST_P(Operations, RunFromEveryRoot) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        for (Rank root = 0; root < comm.size(); ++root)
          for (const Operation operation : data_operations())
            if (has_root(operation))
              for (const std::size_t count : {5, 3000})
                expect_right(comm, {.operation = operation, .count = count, .root = root});
      },
      over(transport));
}

TEST_P(Operations, ScaleEveryRanksContribution) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        for (const int first : {0, 1}) {  // rank 0 scales by nothing, or does not
          std::vector<double> factors;
          for (int k = first; k < first + comm.size(); ++k) factors.push_back(k % 3 == 0 ? 1.0 : 0.5 * k);
          for (const Operation operation : data_operations())
            for (const std::size_t count : {1, 1000, 40000})
              for (const bool in_place : {false, true})
                if (reduces(operation))
                  expect_right(
                      comm,
                      {.operation = operation, .count = count, .in_place = in_place, .factors = factors});
        }
      },
      over(transport));
}

TEST(OperationsOverTcp, AreRightWithSeveralStreams) {
  for (const int streams : {2, 16}) {
    Options options = over("tcp");
    options.tcp_streams = streams;
    run_local(
        3,
        [&](Communicator& comm) {
          for (const Operation operation : data_operations())
            for (const std::size_t count : {37, 40'000})
              expect_right(comm, {.operation = operation, .count = count, .root = 2, .seed = 3});
          const Trial any({}, comm.rank(), comm.size());
          EXPECT_THAT(comm.explain(any.call()), HasSubstr(", " + std::to_string(streams) + " streams"));
          comm.barrier();
        },
        options);
  }
}

// Who only sends holds messages back for others to come.
TEST(OperationsOverTcp, AStreamOfBroadcastsArrivesWhileTheRootIsElsewhere) {
  constexpr int times = 1000;
  std::array<std::promise<void>, 3> arrived;
  run_local(
      3,
      [&](Communicator& comm) {
        std::vector<int> data(10);
        for (int i = 0; i < times; ++i) {
          std::ranges::fill(data, comm.rank() == 0 ? i : -1);
          comm.broadcast(std::span(data), 0);
          ASSERT_EQ(data, std::vector<int>(10, i));
        }
        if (comm.rank() != 0) return arrived.at(static_cast<std::size_t>(comm.rank())).set_value();
        for (const std::size_t rank : {1, 2})
          EXPECT_EQ(arrived.at(rank).get_future().wait_for(std::chrono::seconds(20)),
                    std::future_status::ready)
              << rank;
      },
      over("tcp"));
}

TEST(OperationsAsValues, AreThoseOfTheNamedFunctions) {
  static_assert(!std::is_copy_constructible_v<Group>, "its calls lead to counts of its own");
  run_local(3, [](Communicator& comm) {
    for (const Operation operation : data_operations()) {
      const Exercise exercise{.operation = operation, .count = 50, .root = 1};
      const Trial blocking(exercise, comm.rank(), comm.size());
      const Trial begun(exercise, comm.rank(), comm.size());
      const Trial grouped(exercise, comm.rank(), comm.size());
      comm.call(blocking.call());
      auto async = comm.async();
      async.call(begun.call()).wait();
      Group group = comm.group();
      group.call(grouped.call());
      Group(std::move(group)).run();
      for (const Trial* trial : {&blocking, &begun, &grouped})
        EXPECT_EQ(trial->wrong(), "") << to_string(exercise);
    }
  });
}

class Types : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Local, Types,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(1, 2, 3)),
                         transport_and_ranks);

// Factors with which results of three ranks are exact in every type.
TEST_P(Types, AreReducedByEveryReductionScaledOrNot) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        std::vector<double> factors(static_cast<std::size_t>(comm.size()), 0.5);
        factors[0] = 2;
        for (int type = 0; type < data_type_count; ++type)
          for (int op = 0; op < reduce_op_count; ++op)
            for (const Operation operation : data_operations())
              for (const std::size_t count : {3, 5001})
                for (const bool scaled : {false, true})
                  if (reduces(operation))
                    expect_right(comm, {.operation = operation,
                                        .count = count,
                                        .type = static_cast<DataType>(type),
                                        .reduction = static_cast<ReduceOp>(op),
                                        .seed = static_cast<std::uint32_t>(op + 1),
                                        .factors = scaled ? factors : std::vector<double>{}});
      },
      over(transport));
}

TEST_P(Types, AreMoved) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        for (int type = 0; type < data_type_count; ++type)
          for (const Operation operation : data_operations())
            if (!reduces(operation))
              expect_right(comm, {.operation = operation, .count = 777, .type = static_cast<DataType>(type)});
      },
      over(transport));
}

// Sizes beyond a message of TCP and beyond what shared memory holds at once.
TEST_P(Types, MoveManyPieces) {
  const auto [transport, ranks] = GetParam();
  run_local(
      ranks,
      [](Communicator& comm) {
        for (const Operation operation : data_operations())
          for (const bool in_place : {false, true})
            if (!in_place || can_be_in_place(operation))
              expect_right(comm, {.operation = operation, .count = 300'007, .in_place = in_place, .seed = 3});
      },
      over(transport));
}

class Algorithms : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Local, Algorithms,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(2, 3, 4, 5, 8)),
                         transport_and_ranks);

Operation operation_of(Collective collective) { return static_cast<Operation>(collective); }

void expect_right_when_forced(const Algorithm& algorithm, int ranks, const Options& options) {
  run_local(
      ranks,
      [&](Communicator& comm) {
        const Operation operation = operation_of(algorithm.collective);
        int memory = 0;
        const Call call{.operation = operation, .in = &comm, .out = &memory, .count = 0};
        EXPECT_NE(comm.explain(call).find("algorithm " + std::string(algorithm.name)), std::string::npos);
        comm.barrier();  // it has connected to ranks that could be gone later
        for (const std::size_t count : {1, 41, 20000})
          for (const bool in_place : {false, true})
            expect_right(
                comm,
                {.operation = operation, .count = count, .in_place = in_place, .root = comm.size() - 1});
      },
      options);
}

TEST_P(Algorithms, GiveEqualResultsWhenForced) {
  const auto [transport, ranks] = GetParam();
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.one_sided || algorithm.collective == Collective::barrier) continue;
    Options options = over(transport);
    options.algorithm = algorithm.name;
    SCOPED_TRACE(std::string(name(algorithm.collective)) + " by " + std::string(algorithm.name));
    for (const int node_size : {0, 2, 3}) {
      if (node_size != 0 && (algorithm.by_nodes == nullptr || node_size >= ranks)) continue;
      options.node_size = node_size;
      expect_right_when_forced(algorithm, ranks, options);
    }
  }
}

// Forcing an algorithm leaves the operations alone that have none of that name, and those that it cannot
// carry.
TEST_P(Algorithms, AForcedNameLeavesOtherOperationsRight) {
  const auto [transport, ranks] = GetParam();
  for (const char* forced : {"ring", "doubling", "halving", "bruck"}) {
    Options options = over(transport);
    options.algorithm = forced;
    run_local(
        ranks,
        [](Communicator& comm) {
          for (const Operation operation : data_operations())
            for (const std::uint32_t seed : {4U, 5U})
              expect_right(comm, {.operation = operation, .count = 50, .seed = seed});
        },
        options);
  }
}

TEST(Forcing, IsRefusedForOneSidedAlgorithmsAndForWhatDoesNotExist) {
  Options options = over("shm");
  for (const char* algorithm : {"direct_pull", "rign"}) {
    options.algorithm = algorithm;
    const auto thrown = thrown_by([&] {
      run_local(
          2, [](Communicator&) {}, options);
    });
    EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << thrown.text;
    EXPECT_NE(thrown.text.find(algorithm), std::string::npos) << thrown.text;
  }
  EXPECT_EQ(thrown_by([] {
              run_local(
                  1, [](Communicator&) {}, over("pigeons"));
            }).code,
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tutti::test
