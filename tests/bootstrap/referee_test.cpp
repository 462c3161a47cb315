// The referee alone, and in a session.
#include "bootstrap/referee.hpp"

#include <gmock/gmock.h>

#include "bootstrap/ranks.hpp"

namespace tutti::bootstrap::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const CallRecord reduce{1, 100, "all_reduce(4 x int32, sum)"}, gather{2, 200, "all_gather(8 x int8)"},
    other_gather{2, 201, "all_gather(9 x int8)"};

TEST(Referee, SameCallsGiveNoVerdict) {
  Referee referee;
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_FALSE(referee.hear(rank, {7, rank, {reduce, gather}}));
}

TEST(Referee, ARankThatIsOnlyBehindGivesNoVerdict) {
  Referee referee;
  EXPECT_FALSE(referee.hear(0, {7, 0, {reduce, gather}}));
  EXPECT_FALSE(referee.hear(1, {7, 1, {reduce}}));
  EXPECT_FALSE(referee.hear(2, {7, 2, {}}));
}

TEST(Referee, DifferentCallsNameBothRanksAndCallsOnce) {
  Referee referee;
  EXPECT_FALSE(referee.hear(10, {7, 1, {reduce, gather}}));
  EXPECT_FALSE(referee.hear(11, {7, 2, {reduce, gather}}));
  const auto verdict = referee.hear(12, {7, 0, {reduce, other_gather}});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, Notice::Kind::failed);
  EXPECT_EQ(verdict->communicator, 7U);
  EXPECT_EQ(verdict->code, ErrorCode::mismatch);
  EXPECT_THAT(verdict->ranks, ElementsAre(0, 1));
  EXPECT_THAT(
      verdict->text,
      HasSubstr("call 2 differs: rank 0 called all_gather(9 x int8), rank 1 called all_gather(8 x int8)"));
  EXPECT_FALSE(referee.hear(12, {7, 0, {reduce, other_gather}}));
}

TEST(Referee, DifferentCallsThatReadAlikeAreSaidToDifferOtherwise) {
  Referee referee;
  referee.hear(0, {7, 0, {reduce}});
  const auto verdict = referee.hear(1, {7, 1, {{1, 101, reduce.text}}});
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->text, HasSubstr("rank 1 called all_reduce(4 x int32, sum) with other options, "
                                       "schedule, factor or counts; all ranks must"));
}

TEST(Referee, TheFirstDifferenceCounts) {
  Referee referee;
  referee.hear(0, {7, 0, {{1, 1, "a"}, {2, 2, "b"}, {3, 3, "c"}}});
  const auto verdict = referee.hear(1, {7, 1, {{3, 9, "z"}, {2, 8, "y"}, {1, 1, "a"}}});
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->text, HasSubstr("call 2 differs: rank 0 called b, rank 1 called y"));
}

TEST(Referee, CommunicatorsAreApart) {
  Referee referee;
  EXPECT_FALSE(referee.hear(0, {7, 0, {gather}}));
  EXPECT_FALSE(referee.hear(1, {8, 1, {other_gather}}));
}

// The first one has the lowest number.
TEST(Referee, OfManyCommunicatorsItForgetsThoseThatWereReportedLongAgo) {
  Referee referee;
  for (std::uint64_t number = 1; number <= 5000; ++number)
    EXPECT_FALSE(referee.hear(0, {number, 0, {gather}}));
  EXPECT_FALSE(referee.hear(0, {1, 0, {gather}}));
  const auto verdict = referee.hear(1, {1, 1, {other_gather}});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->communicator, 1U);
}

TEST(StuckReport, EverybodyHearsTheVerdict) {
  auto sessions = form_group(3);
  sessions[0]->report_stuck(5, 0, std::vector{reduce, gather});
  sessions[1]->report_stuck(5, 1, std::vector{reduce, gather});
  EXPECT_FALSE(next_notice(*sessions[1], 30ms));
  sessions[2]->report_stuck(5, 2, std::vector{reduce, other_gather});
  for (auto& session : sessions) {
    const auto notice = next_notice(*session);
    ASSERT_TRUE(notice);
    EXPECT_EQ(notice->code, ErrorCode::mismatch);
    EXPECT_EQ(notice->communicator, 5U);
    EXPECT_EQ(notice->ranks.back(), 2);
    EXPECT_THAT(notice->text, HasSubstr("rank 2 called all_gather(9 x int8)"));
    EXPECT_THAT(notice->text, HasSubstr("called all_gather(8 x int8)"));
    EXPECT_FALSE(session->poll());
  }
  leave_all(sessions);
}

TEST(StuckReport, LongOnesKeepTheNewestCalls) {
  auto sessions = form_group(2);
  for (std::uint32_t rank : {0U, 1U}) {
    std::vector<CallRecord> calls;
    for (std::uint64_t i = 0; i < 5000; ++i)
      calls.push_back({i, i == 4999 ? rank : 7, std::string(2000, 'c')});
    sessions[rank]->report_stuck(1, static_cast<Rank>(rank), calls);
  }
  const auto notice = next_notice(*sessions[0]);
  ASSERT_TRUE(notice);
  EXPECT_THAT(notice->text, HasSubstr("call 4999 differs"));
  leave_all(sessions);
}

}  // namespace
}  // namespace tutti::bootstrap::test
