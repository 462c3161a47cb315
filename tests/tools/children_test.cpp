#include "children.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.hpp"
#include "base/file_descriptor.hpp"

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

// Of the standard output, which is to tell what was wrong.
TEST(Children, WhoWaitsForAReaderAfterAFailureIsNotKilled) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const FileDescriptor pauses(ends[0]), full(ends[1]), before(::dup(STDOUT_FILENO));
  const std::vector<char> some(PIPE_BUF);
  while (::write(full.get(), some.data(), some.size()) > 0) continue;
  std::fflush(stdout);
  ::dup2(full.get(), STDOUT_FILENO);
  Children children("a-tool");
  for (Rank rank = 0; rank < 2; ++rank)
    if (children.begin(rank)) {
      if (rank == 1) ::_exit(7);
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      ::_exit(EXIT_SUCCESS);
    }
  ::testing::internal::CaptureStderr();
  const int worst = children.wait(std::chrono::milliseconds(50));
  ::dup2(before.get(), STDOUT_FILENO);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
  EXPECT_EQ(worst, 7);
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
