// tutti-perf as ranks of other people's launchers: one table of all, and one end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "command.hpp"
#include "perf_output.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

struct PerfLauncher {
  const char *name, *binary, *options;
};

class PerfLaunchers : public testing::TestWithParam<PerfLauncher> {
 protected:
  void SetUp() override {
    if (test::run_command(std::string("command -v ") + GetParam().binary).status != 0)
      GTEST_SKIP() << GetParam().binary << " is not installed";
#ifndef TUTTI_HAVE_PMIX
    if (GetParam().name == std::string("OpenMpi")) GTEST_SKIP() << "built without PMIx";
#endif
  }
  static test::Outcome start_four(const std::string& program) {
    return test::run_command(std::string("timeout 60 ") + GetParam().binary + GetParam().options + " -n 4 " +
                             program + " all_reduce -b 8 -e 64K -f 8 -n 2 --batches 2 -w 1");
  }
};

INSTANTIATE_TEST_SUITE_P(Perf, PerfLaunchers,
                         testing::Values(PerfLauncher{"OpenMpi", "mpirun.openmpi",
                                                      " --allow-run-as-root --oversubscribe"},
                                         PerfLauncher{"Mpich", "mpiexec.hydra", ""}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(PerfLaunchers, MakeOneTable) {
  const test::Outcome outcome = start_four(TUTTI_PERF);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const test::PerfOutput printed = test::parse_perf(outcome.output);
  EXPECT_EQ(std::ranges::count(printed.comments, "# Using ranks"), 1) << outcome.output;
  EXPECT_EQ(std::ranges::count(printed.comments, "# Out of bounds values : 0 OK"), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("# tutti-perf all_reduce ranks 4 "));
  ASSERT_EQ(printed.rows.size(), 5U) << outcome.output;
  for (const test::PerfRow& row : printed.rows) {
    EXPECT_EQ(row.out_of_place.wrong, "0");
    EXPECT_EQ(row.in_place.wrong, "0");
  }
}

// Three ranks, five sizes, a check before and one after.
TEST_P(PerfLaunchers, LearnOfWrongResults) {
  const test::Outcome outcome = start_four("env TUTTI_TEST_SPOIL=apart " TUTTI_LOSSY_PERF);
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("# Out of bounds values : 30 FAILED"));
}

}  // namespace
}  // namespace tutti
