// The table of a real run, by nccl-tests' definitions (its doc/PERFORMANCE.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "command.hpp"
#include "perf/report.hpp"
#include "perf_output.hpp"

namespace tutti {
namespace {

struct BusCase {
  const char* operation;
  double of_two, of_four;  ///< bus bandwidth over algorithm bandwidth
  bool divided;            ///< the size is that of a block of every rank
};

class PerfTables : public testing::TestWithParam<BusCase> {
 protected:
  struct Run {
    test::PerfOutput printed;
    nlohmann::json json;
  };
  static Run measure(int ranks) {
    const std::string file = testing::TempDir() + "tutti-perf-table." + std::to_string(::getpid()) + ".json";
    const test::Outcome outcome =
        test::run_command(TUTTI_PERF " " + std::string(GetParam().operation) + " -b 64K -e 1M -f 16 -n 2" +
                          " --batches 2 --ranks " + std::to_string(ranks) + " --json " + file);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    std::ifstream stream(file);
    Run run{test::parse_perf(outcome.output), nlohmann::json::parse(stream)};
    std::remove(file.c_str());
    return run;
  }
};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line.substr(1));
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

constexpr double rounding = 0.00501;  // of two decimals

// `exact` is the same result in JSON.
void expect_bandwidths(const test::PerfResult& printed, const nlohmann::json& exact, double bytes,
                       double factor) {
  EXPECT_EQ(printed.wrong, "0");
  const double algbw = std::stod(printed.algbw), busbw = std::stod(printed.busbw);
  EXPECT_NEAR(busbw, factor * algbw, rounding * (1 + factor));
  EXPECT_NEAR(algbw, exact.at("algbw_gbs"), rounding);
  EXPECT_NEAR(busbw, exact.at("busbw_gbs"), rounding);
  const double exact_algbw = exact.at("algbw_gbs"), exact_busbw = exact.at("busbw_gbs");
  EXPECT_DOUBLE_EQ(exact_algbw, bytes / (exact.at("time_us").get<double>() * 1e3));
  EXPECT_DOUBLE_EQ(exact_busbw, factor * exact_algbw);
}

TEST_P(PerfTables, HaveNcclTestsBandwidths) {
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    const double factor = ranks == 2 ? GetParam().of_two : GetParam().of_four;
    const auto [printed, json] = measure(ranks);
    ASSERT_EQ(printed.rows.size(), 2U);
    ASSERT_EQ(json.at("rows").size(), 2U);
    double sum = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const test::PerfRow& row = printed.rows[i];
      const nlohmann::json& exact = json.at("rows").at(i);
      const int bytes = i == 0 ? 1 << 16 : 1 << 20;
      EXPECT_EQ(row.size, std::to_string(bytes));
      const int blocks = GetParam().divided ? ranks : 1;
      EXPECT_EQ(row.count, std::to_string(bytes / blocks / 4));
      expect_bandwidths(row.out_of_place, exact.at("out_of_place"), bytes, factor);
      sum += exact.at("out_of_place").at("busbw_gbs").get<double>();
      expect_bandwidths(row.in_place, exact.at("in_place"), bytes, factor);
      sum += exact.at("in_place").at("busbw_gbs").get<double>();
    }
    EXPECT_DOUBLE_EQ(json.at("average_busbw_gbs"), sum / 4);
    const std::string average = "# Avg bus bandwidth    : ";
    const std::string& last = printed.comments.at(printed.comments.size() - 2);
    ASSERT_TRUE(last.starts_with(average)) << last;
    EXPECT_NEAR(std::stod(last.substr(average.size())), sum / 4, sum * 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Perf, PerfTables,
                         testing::Values(BusCase{"all_reduce", 1, 1.5, false},
                                         BusCase{"all_gather", 0.5, 0.75, true},
                                         BusCase{"reduce_scatter", 0.5, 0.75, true},
                                         BusCase{"all_to_all", 0.5, 0.75, true},
                                         BusCase{"broadcast", 1, 1, false}, BusCase{"reduce", 1, 1, false}),
                         [](const auto& test) { return std::string(test.param.operation); });

TEST(PerfTable, HasNcclTestsColumns) {
  const test::Outcome outcome =
      test::run_command(TUTTI_PERF " broadcast --ranks 2 -b 8 -e 8 -r 1 -t half -n 1 --batches 1");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const test::PerfOutput printed = test::parse_perf(outcome.output);
  const auto& comments = printed.comments;
  ASSERT_GE(comments.size(), 6U);
  const std::size_t names = comments.size() - 5;  // before the units and the last three lines
  using testing::ElementsAre;
  EXPECT_THAT(words_of(comments[names - 1]), ElementsAre("out-of-place", "in-place", "p10-p90"));
  EXPECT_THAT(words_of(comments[names]),
              ElementsAre("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
                          "time", "algbw", "busbw", "#wrong", "out-of-place", "in-place"));
  EXPECT_THAT(words_of(comments[names + 1]), ElementsAre("(B)", "(elements)", "(us)", "(GB/s)", "(GB/s)",
                                                         "(us)", "(GB/s)", "(GB/s)", "(us)", "(us)"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("\n +8 [^\n]*\n# Out of bounds values : 0 OK\n"
                                                     "# Avg bus bandwidth    : [0-9.e+-]+\n#\n$"));
  ASSERT_EQ(printed.rows.size(), 1U);
  const test::PerfRow& row = printed.rows[0];
  EXPECT_THAT((std::vector{row.size, row.count, row.type, row.reduction, row.root}),
              ElementsAre("8", "4", "float16", "none", "1"));
}

// Of one rank, in place, nothing is moved.
TEST(PerfTable, KeepsItsColumnsForAnyBandwidth) {
  testing::internal::CaptureStdout();
  for (const double gigabytes :
       {0.0, 12.34, 9999.99, 9999.999, 12345.67, 2019648.01, 9999999.4, 9999999.6, 15772924.33}) {
    const perf::Result result{.algbw = gigabytes, .busbw = gigabytes};
    perf::print_row(stdout, {.bytes = 8, .count = 2, .out_of_place = result, .in_place = result});
  }
  std::istringstream rows(testing::internal::GetCapturedStdout());
  std::set<std::size_t> lengths;
  for (std::string row; std::getline(rows, row);) lengths.insert(row.size());
  EXPECT_EQ(lengths.size(), 1U) << rows.str();
}

}  // namespace
}  // namespace tutti
