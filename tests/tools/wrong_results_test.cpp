// tutti-perf on a library that gives wrong results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "bootstrap/rendezvous.hpp"
#include "command.hpp"
#include "perf/benchmark.hpp"
#include "perf_output.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

// Three ranks: two of them wrong.
test::Outcome run_spoiled(const std::string& spoiled, const std::string& arguments) {
  return test::run_command("TUTTI_TEST_SPOIL=" + spoiled + " " TUTTI_LOSSY_PERF " " + arguments +
                           " --ranks 3 -n 2 --batches 2 -w 1");
}

class WrongResults : public testing::TestWithParam<perf::Benchmark> {};

TEST_P(WrongResults, AreNoticed) {
  const std::string arguments = std::string(GetParam().name) + " -r 1 -b 1K -e 1K";
  const test::Outcome right = run_spoiled("nothing", arguments);
  EXPECT_EQ(right.status, 0) << right.output;
  const test::Outcome wrong = run_spoiled("apart", arguments);
  EXPECT_EQ(wrong.status, 1) << wrong.output;
  EXPECT_THAT(wrong.output, testing::ContainsRegex("# Out of bounds values : [1-9][0-9]* FAILED"));
}

std::vector<perf::Benchmark> spoilable() {
  std::vector<perf::Benchmark> all;
  for (const perf::Benchmark& benchmark : perf::benchmarks())
    if (benchmark.kind != perf::Kind::barrier) all.push_back(benchmark);  // it has no result
  return all;
}

INSTANTIATE_TEST_SUITE_P(Perf, WrongResults, testing::ValuesIn(spoilable()),
                         [](const auto& test) { return std::string(test.param.name); });

// Two ranks, three checks before and three after: twelve in each of two rows.
TEST(Perf, CountsTheWrongElementsOfAllRanksWhereTheyAre) {
  for (const std::string ranks : {"", "--threads"})
    for (const std::string side : {"apart", "in_place"}) {
      const test::Outcome outcome = run_spoiled(side, "all_reduce -b 1K -e 64K -f 64 -c 3 " + ranks);
      EXPECT_EQ(outcome.status, 1) << outcome.output;
      EXPECT_THAT(outcome.output, HasSubstr("# Out of bounds values : 24 FAILED\n"));
      const auto rows = test::parse_perf(outcome.output).rows;
      ASSERT_EQ(rows.size(), 2U) << outcome.output;
      for (const test::PerfRow& row : rows) {
        EXPECT_EQ(row.out_of_place.wrong, side == "apart" ? "12" : "0") << outcome.output;
        EXPECT_EQ(row.in_place.wrong, side == "apart" ? "0" : "12") << outcome.output;
      }
    }
}

// Where a call goes may change after some calls: the first ones say nothing about those that are timed.
TEST(Perf, NoticesResultsThatAreWrongOnlyAfterTheWarmUp) {
  const test::Outcome outcome =
      test::run_command("TUTTI_TEST_RIGHT=2 TUTTI_TEST_SPOIL=apart " TUTTI_LOSSY_PERF
                        " all_reduce --ranks 3 -b 1K -e 1K -c 1 -w 1 -n 2 --batches 2");
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("# Out of bounds values : 2 FAILED\n"));
}

// Launchers end all ranks as one fails, and rank 0 still has to say what was wrong.
TEST(Perf, FailsForWrongResultsOnRankZeroAlone) {
  const std::string rank =
      "TUTTI_TEST_SPOIL=apart TUTTI_SIZE=2 TUTTI_ID=" + bootstrap::reserve_id("127.0.0.1").to_string() +
      " TUTTI_RANK=";
  const std::string perf = " " TUTTI_LOSSY_PERF " all_reduce -b 8 -e 8 -n 1 --batches 1 -w 0";
  const test::Outcome outcome = test::run_command("{ " + rank + "1" + perf + "; echo rank 1 ended: $?; } & " +
                                                  rank + "0" + perf + "; status=$?; wait; exit $status");
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("# Out of bounds values : 2 FAILED\n"));
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 ended: 0\n"));
}

TEST(Perf, WritesWrongResultsIntoJson) {
  const std::string file = testing::TempDir() + "tutti-perf-wrong." + std::to_string(::getpid()) + ".json";
  EXPECT_EQ(run_spoiled("in_place", "all_reduce -b 1K -e 1K --json " + file).status, 1);
  std::ifstream stream(file);
  const nlohmann::json json = nlohmann::json::parse(stream);
  std::remove(file.c_str());
  EXPECT_EQ(json.at("wrong"), 4);
  EXPECT_EQ(json.at("rows").at(0).at("out_of_place").at("wrong"), 0);
  EXPECT_EQ(json.at("rows").at(0).at("in_place").at("wrong"), 4);
}

}  // namespace
}  // namespace tutti
