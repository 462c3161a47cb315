// tutti-doctor as a person runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "bootstrap/rendezvous.hpp"
#include "doctor/finding.hpp"

namespace tutti::doctor {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int status = -1;
  std::string output;
};

Outcome run(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> some{};
  while (std::fgets(some.data(), some.size(), pipe) != nullptr) outcome.output += some.data();
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

const std::string doctor = TUTTI_DOCTOR;

TEST(Doctor, ExaminesThisMachine) {
  const Outcome outcome = run(doctor);
  for (const char* area :
       {"processors\n", "memory\n", "shared memory\n", "network\n", "rdma\n", "gpu\n", "pcie\n"})
    EXPECT_THAT(outcome.output, HasSubstr(area));
  EXPECT_THAT(outcome.output, Not(HasSubstr("could not be examined")));
}

TEST(Doctor, MeasuresPairsOfRanksItStarts) {
  const Outcome outcome = run(doctor + " --ranks 3");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("ranks 0, 1, 2"));
  EXPECT_THAT(outcome.output, HasSubstr("3 pairs by shm"));
}

TEST(Doctor, WritesJsonInsteadOfWords) {
  const Outcome outcome = run(doctor + " --ranks 2 --transport tcp --json -");
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json.at("machines").size(), 1U);
  EXPECT_EQ(json.at("machines").at(0).at("ranks").size(), 2U);
  const Finding measured = finding_from(json.at("pairs").back());
  const auto& pair = measured.data.at("pairs").at(0);
  EXPECT_EQ(pair.at("transport"), "tcp");
  EXPECT_GT(pair.at("latency_us"), 0);
  EXPECT_GT(pair.at("bandwidth_gbs"), 0);
}

TEST(Doctor, RunsUnderMpirun) {
  const std::string mpirun = TUTTI_MPIRUN;
  if (mpirun.empty()) GTEST_SKIP() << "there is no mpirun";
  // PMIx leaks a few bytes of its own.
  const Outcome outcome =
      run("ASAN_OPTIONS=detect_leaks=0 " + mpirun + " --allow-run-as-root --oversubscribe -n 2 " + doctor +
          " --json - 2>/dev/null");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(nlohmann::json::parse(outcome.output).at("machines").at(0).at("ranks").size(), 2U);
}

TEST(Doctor, AGroupThatDoesNotComeTogetherIsAnError) {
  const std::string id = bootstrap::reserve_id("127.0.0.1").to_string();
  const Outcome outcome =
      run("TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_ID=" + id + " " + doctor + " --timeout 0.5 2>&1");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("the ranks do not come together"));
  EXPECT_THAT(outcome.output, HasSubstr("firewall"));
  EXPECT_THAT(outcome.output, HasSubstr("processors\n"));
}

TEST(Doctor, RefusesUnknownOptions) {
  EXPECT_EQ(run(doctor + " --bogus 2>&1").status, 2);
  EXPECT_EQ(run(doctor + " --help").status, 0);
}

}  // namespace
}  // namespace tutti::doctor
