#include "children.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>

#include "base/deadline.hpp"

namespace tutti {

namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Children, TheWorstStatusCounts) {
  Children children("a-tool");
  for (const int status : {0, 3, 2})
    if (children.begin(status)) ::_exit(status);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(children.wait(seconds(60)), 3);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
}

TEST(Children, TheWorstStatusCountsAlsoWhereTheirEndsAreIgnored) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  Children children("a-tool");
  for (const int status : {0, 3, 2})
    if (children.begin(status)) ::_exit(status);
  EXPECT_EQ(children.wait(seconds(60)), 3);
  std::signal(SIGCHLD, before);
}

TEST(Children, AllWell) {
  Children children("a-tool");
  for (Rank rank = 0; rank < 3; ++rank)
    if (children.begin(rank)) ::_exit(EXIT_SUCCESS);
  EXPECT_EQ(children.wait(seconds(60)), EXIT_SUCCESS);
}

TEST(Children, WhoIsKilledIsReported) {
  Children children("a-tool");
  for (Rank rank = 0; rank < 3; ++rank)
    if (children.begin(rank)) {
      if (rank == 1) ::raise(SIGKILL);
      ::_exit(EXIT_SUCCESS);
    }
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(children.wait(seconds(60)), EXIT_FAILURE);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("a-tool: rank 1 (pid "), HasSubstr(") was killed by signal 9 (Killed)\n")));
}

TEST(Children, WhoDoesNotEndAfterAFailureIsReportedAndKilled) {
  Children children("a-tool");
  for (Rank rank = 0; rank < 2; ++rank)
    if (children.begin(rank)) {
      if (rank == 1) ::_exit(7);
      ::sleep(30);
      ::_exit(EXIT_SUCCESS);
    }
  ::testing::internal::CaptureStderr();
  const Deadline before_it_ends(seconds(20));
  EXPECT_EQ(children.wait(std::chrono::milliseconds(100)), 7);
  EXPECT_FALSE(before_it_ends.passed());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(") did not end after a rank failed\n"));
}

TEST(Children, WhoDoesNotEndAfterAKnownFailureIsKilled) {
  Children children("a-tool");
  if (children.begin(0)) {
    ::sleep(30);
    ::_exit(EXIT_SUCCESS);
  }
  EXPECT_EQ(children.wait(std::chrono::milliseconds(100), true), EXIT_FAILURE);
}

}  // namespace

}  // namespace tutti
