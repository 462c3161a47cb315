// What was proved of a user's schedule is what runs, for sizes that a proof knows nothing of.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "collectives/algorithms.hpp"
#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "execution/chunk_ranges.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;

class UserSchedules : public testing::TestWithParam<const char*> {
 protected:
  static void expect_right_of_all_sizes(const char* text, std::chrono::milliseconds last_rank_is_late = 0ms) {
    const Schedule schedule = parse_schedule(text);
    run_local(
        schedule.ranks,
        [&](Communicator& comm) {
          comm.use(schedule);
          for (const std::size_t count : {0, 1, 8, 33, 1000, 20'000, 300'000}) {
            if (comm.rank() == comm.size() - 1) std::this_thread::sleep_for(last_rank_is_late);
            expect_right(comm, {.operation = static_cast<Operation>(schedule.collective), .count = count});
          }
        },
        over(GetParam()));
  }
};
INSTANTIATE_TEST_SUITE_P(Local, UserSchedules, testing::Values("shm", "tcp"), transport_name);

TEST_P(UserSchedules, SendOnAPartOfWhatTheyReceived) {
  expect_right_of_all_sizes(R"(
broadcast "parts" ranks 3 chunks 2 scratch 2
rank 0
  lane 0
    out[0:2], to 1*2 = in[0:2]
rank 1
  lane 0
    scratch[0:2] = from 0*2
    out[0:2] = scratch[0:2]
    to 2 = scratch[0]
    to 2 = scratch[1]
rank 2
  lane 0
    out[0] = from 1
    out[1] = from 1
)");
}

// Lane 0 of rank 1 fills the scratch chunk, lane 1 empties it; tokens by way of rank 0 say so, for every
// piece.
TEST_P(UserSchedules, OrderEveryPieceByTokens) {
  expect_right_of_all_sizes(R"(
broadcast "tokens" ranks 2 chunks 1 scratch 1
rank 0
  lane 0
    out[0], to 1 = in[0]
    nothing = from 1/1*0
    to 1/2*0 = nothing
  lane 1
    nothing = from 1/3*0
    to 1/3*0 = nothing
rank 1
  lane 0
    scratch[0] = from 0
    to 0/1*0 = nothing
    nothing = from 0/3*0
  lane 1
    nothing = from 0/2*0
    out[0] = scratch[0]
    to 0/3*0 = nothing
)");
}

// The same with lanes that have nothing but tokens, in a collective whose lanes count their own pieces.
TEST_P(UserSchedules, HaveLanesOfTokens) {
  expect_right_of_all_sizes(R"(
all_gather "relayed" ranks 2 chunks 2 scratch 1
rank 0
  lane 0
    out[0], to 1 = in[0]
    out[1] = from 1
  lane 1
    nothing = from 1/1*0
    to 1/1*0 = nothing
  lane 2
    nothing = from 1/2*0
    to 1/2*0 = nothing
rank 1
  lane 0
    out[1], to 0 = in[0]
    scratch[0] = from 0
    to 0/1*0 = nothing
    nothing = from 0/2*0
  lane 1
    nothing = from 0/1*0
    out[0] = scratch[0]
    to 0/2*0 = nothing
)");
}

// Lane 1 of rank 1 is at the last piece, which is shorter, while lane 0 is at the one before.
TEST_P(UserSchedules, KeepScratchOfPiecesApart) {
  expect_right_of_all_sizes(R"(
broadcast "rest" ranks 3 chunks 2 scratch 2
rank 0
  lane 0
    out[0], to 1, to 2 = in[0]
  lane 1
    out[1], to 1/1, to 2/1 = in[1]
rank 1
  lane 0
    scratch[0] = from 0
    nothing = from 2*0
    out[0] = scratch[0]
  lane 1
    scratch[1] = from 0/1
    out[1] = scratch[1]
rank 2
  lane 0
    to 1*0 = nothing
    out[0] = from 0
  lane 1
    out[1] = from 0/1
)",
                            20ms);
}

// Proved, for it is about values; but chunk 1 may be shorter than chunk 0.
TEST(UserSchedulesOfChunks, AreRefusedWhereOneTakesThePlaceOfAnother) {
  const char* const packed = R"(
broadcast "packed" ranks 2 chunks 3 scratch 2
rank 0
  lane 0
    out[0:3] = in[0:3]
    scratch[0] = in[0]
    scratch[1] = in[2]
    to 1*2 = scratch[0:2]
    to 1 = in[1]
rank 1
  lane 0
    scratch[0:2] = from 0*2
    out[0] = scratch[0]
    out[2] = scratch[1]
    out[1] = from 0
)";
  const char* const elsewhere = R"(
broadcast "elsewhere" ranks 2 chunks 2
rank 0
  lane 0
    out[1] = in[0]
    out[0:2] = in[0:2]
    to 1 = in[0]
    to 1 = in[1]
rank 1
  lane 0
    out[0] = from 0
    out[1] = from 0
)";
  const char* const received = R"(
broadcast "received" ranks 2 chunks 2
rank 0
  lane 0
    out[0:2] = in[0:2]
    to 1 = in[0]
    to 1 = in[1]
rank 1
  lane 0
    out[1] = from 0
    out[0] = out[1]
    out[1] = from 0
)";
  run_local(2, [&](Communicator& comm) {
    for (const auto& [text, where] : {std::pair{packed, "rank 0 lane 0 step 3"},
                                      {elsewhere, "rank 0 lane 0 step 0"},
                                      {received, "rank 1 lane 0 step 0"}}) {
      const Schedule schedule = parse_schedule(text);
      EXPECT_FALSE(verify(schedule, {.pieces = 3}));
      const auto thrown = thrown_by([&] { comm.use(schedule); });
      EXPECT_EQ(thrown.code, ErrorCode::invalid_schedule);
      EXPECT_NE(thrown.text.find(where), std::string::npos) << thrown.text;
    }
    expect_right(comm, {.operation = Operation::broadcast, .count = 33});
  });
}

// It names how much is lacking.
TEST(UserSchedulesOfScratch, MayLackTheMemoryForIt) {
  if (sanitized) GTEST_SKIP() << "sanitizers need address space themselves";
  run_processes(1, {}, [](Communicator& comm) {
    comm.use(parse_schedule(R"(
broadcast "by way of much" ranks 1 chunks 1 scratch 4096
rank 0
  lane 0
    scratch[4095] = in[0]
    out[0] = scratch[4095]
)"));
    std::vector<float> data(100'000);
    rlimit usual{};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &usual), 0);
    const rlimit none{0, usual.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &none), 0);
    const auto thrown = thrown_by([&] { comm.broadcast(data, 0); });
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &usual), 0);
    EXPECT_EQ(thrown.code, ErrorCode::system);
    EXPECT_NE(thrown.text.find("the scratch of schedule by way of much, "), std::string::npos) << thrown.text;
  });
}

TEST(UserSchedulesOfChunks, OfTheLibraryPass) {
  for (const Algorithm& algorithm : algorithms())
    for (int ranks = 1; ranks <= 17; ++ranks)
      for (const int node_size : {0, 2, 3})
        EXPECT_NO_THROW(execution::require_chunks_kept(algorithm.make(ranks, ranks - 1, node_size)))
            << algorithm.name << " on " << ranks << " in nodes of " << node_size;
}

TEST(UserSchedulesOfChunks, WithARootThatTheirCollectiveHasNotAreRefused) {
  Schedule schedule = find_algorithm(Collective::all_reduce, "ring")->make(2, 0);
  schedule.root = 1;
  const auto fault = verify(schedule, {});
  ASSERT_TRUE(fault);
  EXPECT_NE(to_string(*fault).find("a root, which this collective has not"), std::string::npos);
}

}  // namespace
}  // namespace tutti::test
