// tutti-perf says on a terminal what it is measuring, and there only.
#include "terminal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "perf_output.hpp"
#include "times_in.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string seen_perf = TUTTI_PERF " all_reduce -b 1K -e 4K -n 1 --batches 1 -w 0";
const std::vector<std::string> seen_sizes{"1024", "2048", "4096"};

std::string progress_at(const std::string& size) { return "all_reduce float32 sum: " + size + " bytes ..."; }

void expect_table_alone(const std::string& text) {
  EXPECT_THAT(text, Not(HasSubstr("bytes ...")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  std::vector<std::string> sizes;
  for (const test::PerfRow& row : test::parse_perf(text).rows) sizes.push_back(row.size);
  EXPECT_EQ(sizes, seen_sizes) << text;
}

class PerfOnTerminal : public testing::Test {
 protected:
  ~PerfOnTerminal() override { std::remove(file_.c_str()); }
  [[nodiscard]] std::string in_file() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  const std::string file_ = testing::TempDir() + "tutti-perf-terminal." + std::to_string(::getpid());
};

TEST_F(PerfOnTerminal, ShowsProgressWhichGoesAgain) {
  const test::Outcome outcome = test::run_on_terminal(seen_perf + " --ranks 2");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const std::string& size : seen_sizes)
    EXPECT_EQ(test::times_in(outcome.output, progress_at(size)), 1) << outcome.output;
  expect_table_alone(test::screen_of(outcome.output));
}

TEST_F(PerfOnTerminal, ShowsProgressBesideATableInAFile) {
  const test::Outcome outcome = test::run_on_terminal(seen_perf + " --ranks 2 >" + file_);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const std::string& size : seen_sizes)
    EXPECT_EQ(test::times_in(outcome.output, progress_at(size)), 1) << outcome.output;
  EXPECT_EQ(test::screen_of(outcome.output), "");
  expect_table_alone(in_file());
}

TEST_F(PerfOnTerminal, ShowsNoProgressElsewhere) {
  const test::Outcome piped = test::run_command(seen_perf + " --ranks 2");
  EXPECT_EQ(piped.status, 0);
  expect_table_alone(piped.output);
  const test::Outcome errors_in_file = test::run_on_terminal(seen_perf + " --ranks 2 2>" + file_);
  EXPECT_EQ(errors_in_file.status, 0);
  EXPECT_EQ(in_file(), "");
  EXPECT_THAT(errors_in_file.output, Not(HasSubstr("bytes ...")));
}

TEST_F(PerfOnTerminal, WritesExplanationsOnLinesOfTheirOwn) {
  const test::Outcome outcome = test::run_on_terminal(seen_perf + " --ranks 2 --explain");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const std::string screen = test::screen_of(outcome.output);
  expect_table_alone(screen);
  EXPECT_EQ(test::times_in(screen, "\n# all_reduce("), 3) << screen;
}

TEST_F(PerfOnTerminal, WritesErrorsOnLinesOfTheirOwn) {
  int victim = 0;
  const test::Outcome outcome =
      test::run_on_terminal(TUTTI_PERF " all_reduce --ranks 2 -b 1K -e 1K -n 1000000000 --timeout 10",
                            [&](const std::string& text) {
                              std::smatch match;
                              if (victim != 0 || text.find("bytes ...") == std::string::npos ||
                                  !std::regex_search(text, match, std::regex("Rank +1 Pid +([0-9]+)")))
                                return;
                              victim = std::stoi(match[1]);
                              ::kill(victim, SIGKILL);
                            });
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  const std::string screen = test::screen_of(outcome.output);
  EXPECT_THAT(screen, HasSubstr("\ntutti-perf: rank 1 (pid " + std::to_string(victim) + ") was killed"));
  EXPECT_THAT(screen, HasSubstr("\ntutti-perf: rank 0: tutti: "));
  EXPECT_THAT(screen, Not(HasSubstr("bytes ...")));
}

}  // namespace
}  // namespace tutti
