// Whom an error names: whether its reader finds that rank, and learns what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <span>
#include <vector>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Blame : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, Blame, testing::Values("shm", "tcp"), transport_name);

/// The half of four ranks that is odd, or even: rank 1 there is rank 3, or 2, of all.
void in_halves(const Options& options, const std::function<void(Communicator& half, bool odd)>& body) {
  run_local(
      4, [](Communicator& comm) { comm.split(comm.rank() % 2, 0)->barrier(); }, over(options.transport));
  outcomes(4, options, [&](Communicator& comm) {
    const bool odd = comm.rank() % 2 == 1;
    auto half = comm.split(odd ? 1 : 0, comm.rank());
    ASSERT_TRUE(half);
    body(*half, odd);
  });
}

TEST_P(Blame, CallsThatDifferInASplitAreNamedWithWorldRanks) {
  in_halves(over(GetParam()), [](Communicator& half, bool odd) {
    const auto thrown = thrown_by([&] {
      float value = 1;
      if (half.rank() == 0)
        half.all_reduce(std::span(&value, 1));
      else
        half.broadcast(std::span(&value, 1), 0);
    });
    EXPECT_NE(thrown.code, ErrorCode::timeout) << thrown.text;
    EXPECT_THAT(thrown.text, HasSubstr(odd ? "rank 1 (world rank 3)" : "rank 1 (world rank 2)"));
    EXPECT_THAT(thrown.text, HasSubstr(odd ? "rank 0 (world rank 1)" : "rank 0"));
    if (!odd) {
      EXPECT_THAT(thrown.text, Not(HasSubstr("rank 0 (")));
    }
  });
}

TEST_P(Blame, ADeadlineInASplitSaysWhoHasCalledNothingThere) {
  std::latch over_for_both(2);
  in_halves(over(GetParam(), 500ms), [&](Communicator& half, bool odd) {
    if (half.rank() == 1) return over_for_both.wait();
    const auto thrown = thrown_by([&] { half.barrier(); });
    over_for_both.count_down();
    EXPECT_EQ(thrown.code, ErrorCode::timeout) << thrown.text;
    EXPECT_THAT(thrown.text, HasSubstr(odd ? "barrier() #1 on rank 0 (world rank 1): nothing moved"
                                           : "barrier() #1 on rank 0: nothing moved"));
    EXPECT_THAT(
        thrown.text,
        HasSubstr(odd ? "waiting for rank 1 (world rank 3, has called nothing on this communicator yet)"
                      : "waiting for rank 1 (world rank 2, has called"));
    EXPECT_THAT(thrown.text, Not(HasSubstr("Group")));
  });
}

// In a ring most ranks wait for one that waits itself.
TEST_P(Blame, ADeadlineNamesWhoHasNotMadeTheCall) {
  std::latch over_for_all(4);
  Options options = over(GetParam(), 500ms);
  options.algorithm = "ring";
  outcomes(4, options, [&](Communicator& comm) {
    std::vector<float> data(1000);
    comm.all_reduce(data);
    if (comm.rank() == 1) return over_for_all.arrive_and_wait();
    auto work = comm.async().all_reduce(data);
    const auto impatient = thrown_by([&] { work.wait(50ms); });
    EXPECT_EQ(impatient.code, ErrorCode::timeout) << impatient.text;
    EXPECT_THAT(impatient.ranks, ElementsAre(1)) << impatient.text;
    const auto thrown = thrown_by([&] { work.wait(); });
    over_for_all.arrive_and_wait();
    EXPECT_THAT(thrown.code, AnyOf(ErrorCode::timeout, ErrorCode::aborted)) << thrown.text;
    EXPECT_THAT(thrown.ranks, ElementsAre(1)) << thrown.text;
    EXPECT_THAT(thrown.text, HasSubstr("rank 1 (last call on this communicator: all_reduce(1000 x float32, "
                                       "sum) #1)"));
  });
}

TEST_P(Blame, RanksThatAllSendFirstAreToldOfGroups) {
  run_local(
      2, [](Communicator& comm) { comm.barrier(); }, over(GetParam()));
  const std::vector<float> data(16 << 20);
  outcomes(2, over(GetParam(), 1s), [&](Communicator& comm) {
    const auto thrown = thrown_by([&] { comm.send(data, 1 - comm.rank()); });
    EXPECT_THAT(thrown.code, AnyOf(ErrorCode::timeout, ErrorCode::aborted));
    EXPECT_THAT(thrown.text, HasSubstr("sends and receives that wait for each other belong in one Group"));
  });
}

// Whoever goes on by them must not have met the first failure itself: work that was let go may have.
TEST_P(Blame, AnUnusableCommunicatorStillNamesTheRanks) {
  outcomes(3, over(GetParam()), [](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 1) return;
    std::vector<float> data(1000);
    EXPECT_EQ(thrown_by([&] {
                for (;;) comm.all_reduce(data);
              }).ranks,
              std::vector<Rank>{1});
    for (int call = 0; call < 2; ++call) {
      const auto again = thrown_by([&] { comm.barrier(); });
      EXPECT_EQ(again.code, ErrorCode::aborted) << again.text;
      EXPECT_THAT(again.ranks, ElementsAre(1)) << again.text;
    }
  });
}

TEST_P(Blame, AnAbortThatFollowsAFailureHidesNothing) {
  run_local(
      2, [](Communicator& comm) { comm.barrier(); }, over(GetParam()));
  std::latch failed(1);
  outcomes(2, over(GetParam(), 300ms), [&](Communicator& comm) {
    if (comm.rank() == 0) return failed.wait();
    float value = 1;
    EXPECT_EQ(thrown_by([&] { comm.receive(std::span(&value, 1), 0); }).code, ErrorCode::timeout);
    failed.count_down();
    comm.abort("cleanup");
    const auto after = thrown_by([&] { comm.barrier(); });
    EXPECT_EQ(after.code, ErrorCode::aborted);
    EXPECT_THAT(after.ranks, ElementsAre(0));
    EXPECT_THAT(after.text, HasSubstr("cleanup"));
    EXPECT_THAT(after.text, HasSubstr("receive(1 x float32, from rank 0) #1 on rank 1: nothing moved"));
  });
}

}  // namespace
}  // namespace tutti::test
