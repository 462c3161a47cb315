// Ranks whose processes end by themselves in the middle of an operation, and killed ones whose memory others
// are at work on.
#include <gtest/gtest.h>

#include <cstdlib>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "communicator/victims.hpp"

namespace tutti::test {
namespace {

class Ended : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Local, Ended,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(10, 200'000)),
                         transport_and_ranks);

// Nothing of the process says goodbye: not the communicator, nor the hub where it is rank 0.
TEST_P(Ended, ByItselfInTheMiddleOfAnOperation) {
  const auto [transport, count] = GetParam();
  for (const Ending& ending : endings_by_itself)
    for (const Rank victim : {0, 1, 2}) {
      SCOPED_TRACE("rank " + std::to_string(victim) + " ends " + ending.name);
      end_one(
          transport, victim,
          [&, count = static_cast<std::size_t>(count)](Communicator& comm, std::uint32_t round) {
            const Trial trial({.count = count, .seed = round % 8}, comm.rank(), comm.size());
            issue(comm, trial.call());
          },
          ending);
    }
}

// Static objects are destroyed, the communicator on the stack is not, and its work is under way.
TEST_P(Ended, ByExitWithWorkUnderWay) {
  const auto [transport, count] = GetParam();
  for (const Rank victim : {0, 1, 2}) {
    SCOPED_TRACE("rank " + std::to_string(victim));
    const auto start = std::chrono::steady_clock::now();
    auto children = fork_ranks(3, over(transport, 20s), [&](Communicator& comm) {
      ::alarm(60);  // a rank that hangs ends
      std::vector<float> data(static_cast<std::size_t>(count));
      comm.all_reduce(std::span(data));
      if (comm.rank() == victim) {
        Work work = comm.async().all_reduce(std::span(data));
        std::exit(testing::Test::HasFailure() ? 1 : 0);
      }
      const auto thrown = thrown_by([&] {
        for (;;) comm.all_reduce(std::span(data));
      });
      expect_lost(thrown, victim);
    });
    for (auto& child : children) EXPECT_EQ(child.wait(), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s) << "it is heard, not waited for";
  }
}

// Survivors read and write the memory of a process that is no more. It stays mapped, and theirs is whole.
TEST(EndedInMemory, WhileOthersReachItsBuffers) {
  constexpr std::size_t count = (std::size_t{16} << 20U) / sizeof(float);
  for (const Rank victim : {0, 1, 2}) {
    SCOPED_TRACE("rank " + std::to_string(victim));
    end_one_that("shm", victim, killed, [](Communicator& comm) -> std::function<void(std::uint32_t)> {
      return [&comm, buffer = comm.allocate<float>(count)](std::uint32_t round) {
        const auto before = comm.stats();
        std::fill_n(buffer.data(), 100, 1.0F);
        comm.all_reduce(buffer);
        EXPECT_EQ(buffer[99], 3.0F) << "round " << round;
        const auto after = comm.stats();
        EXPECT_GT(after.bytes_direct, before.bytes_direct) << "the library copied it";
      };
    });
  }
}

}  // namespace
}  // namespace tutti::test
