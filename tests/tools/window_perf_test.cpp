// tutti-window-perf as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "command.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

using test::Outcome;

Outcome run_window_perf(const std::string& arguments) {
  return test::run_command(TUTTI_WINDOW_PERF " " + arguments);
}

const std::string quick_windows = "--ranks 2 --volume 1K --batches 1 ";

// In a column that has room for the largest one, of 14 digits.
TEST(WindowPerf, PrintsARowForEverySize) {
  const Outcome outcome = run_window_perf(quick_windows + "-b 8 -e 32");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const char* row : {"\n               8 ", "\n              16 ", "\n              32 "})
    EXPECT_THAT(outcome.output, HasSubstr(row));
}

TEST(WindowPerf, GoesFromNothingToOneByte) {
  const Outcome outcome = run_window_perf(quick_windows + "-b 0 -e 2");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const char* row : {"\n               0 ", "\n               1 ", "\n               2 "})
    EXPECT_THAT(outcome.output, HasSubstr(row));
}

TEST(WindowPerf, NoticesWhatDidNotMove) {
  for (const std::string lost : {"puts", "gets", "notified puts", ""}) {
    const Outcome outcome = test::run_command("TUTTI_TEST_LOSE='" + lost + "' " TUTTI_LOSSY_WINDOW_PERF " " +
                                              quick_windows + "-b 8 -e 32");
    EXPECT_EQ(outcome.status, lost.empty() ? 0 : 1) << lost << outcome.output;
    EXPECT_EQ(outcome.output.find("wrong data") == std::string::npos, lost.empty()) << lost << outcome.output;
  }
}

// Ten batches take five seconds, and each half of one.
TEST(WindowPerf, TakesAsLongAsItsBatches) {
  const Outcome outcome = test::run_command("TUTTI_TEST_SLOW=250 " TUTTI_LOSSY_WINDOW_PERF
                                            " --ranks 2 --volume 16 -b 8 -e 8 --batches 9 --timeout 4");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(WindowPerf, RefusesBadOptionsWithTheReason) {
  const Outcome sizes = run_window_perf("--ranks 2 -b 16 -e 8");
  EXPECT_EQ(sizes.status, 2);
  EXPECT_THAT(sizes.output, HasSubstr("-b: is larger than -e (16 and 8 bytes)"));
  EXPECT_EQ(run_window_perf("--ranks 2 --transport pigeon").status, 2);
  EXPECT_EQ(run_window_perf("--ranks 2 --timeout 0").status, 2);
  EXPECT_EQ(run_window_perf("--no-pin").status, 2);
  const Outcome alone = run_window_perf("");
  EXPECT_EQ(alone.status, 1);
  EXPECT_THAT(alone.output, HasSubstr("it takes 2 ranks, not 1: give --ranks 2,"));
}

TEST(WindowPerf, FailsWhenItsOutputIsLost) {
  const Outcome outcome = run_window_perf(quick_windows + "-b 8 -e 8 >/dev/full");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("cannot write the standard output"));
}

}  // namespace
}  // namespace tutti
