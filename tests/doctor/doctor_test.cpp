// tutti-doctor as a person runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/processors.hpp"
#include "bootstrap/rendezvous.hpp"
#include "command.hpp"
#include "doctor/finding.hpp"

namespace tutti::doctor {
namespace {

using ::testing::HasSubstr;

using test::Outcome;
using test::run_command;

const std::string doctor = TUTTI_DOCTOR;

TEST(Doctor, ExaminesThisMachine) {
  const Outcome outcome = run_command(doctor);
  for (const char* area :
       {"processors\n", "memory\n", "shared memory\n", "network\n", "rdma\n", "gpu\n", "pcie\n"})
    EXPECT_THAT(outcome.output, HasSubstr(area));
  EXPECT_THAT(outcome.output, Not(HasSubstr("could not be examined")));
}

TEST(Doctor, MeasuresPairsOfRanksItStarts) {
  const Outcome outcome = run_command(doctor + " --ranks 3");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("ranks 0, 1, 2"));
  EXPECT_THAT(outcome.output, HasSubstr("3 pairs by shm"));
}

TEST(Doctor, SaysWhereATransportIsNotTried) {
  const char* not_tried = "transport tcp was not tried";
  for (const std::string options : {"", " --no-pairs", " --ranks 2 --no-pairs"}) {
    EXPECT_THAT(run_command(doctor + " --transport tcp" + options).output, HasSubstr(not_tried)) << options;
    EXPECT_THAT(run_command(doctor + options).output, Not(HasSubstr("was not tried"))) << options;
  }
  EXPECT_THAT(run_command(doctor + " --transport tcp --ranks 2").output, Not(HasSubstr(not_tried)));
}

TEST(Doctor, BlamesNoTransportForAVariable) {
  for (const char* options : {" --ranks 2", "", " --no-pairs"}) {
    const Outcome outcome = run_command("TUTTI_ALGORITHM=pigeon " + doctor + options);
    EXPECT_EQ(outcome.status, 1) << options;
    EXPECT_THAT(outcome.output, HasSubstr("\"pigeon\"")) << options;
    EXPECT_THAT(outcome.output, Not(HasSubstr("at fault"))) << options;
  }
}

TEST(Doctor, SaysNothingOfPairsThatNobodyWants) {
  EXPECT_THAT(run_command(doctor).output, HasSubstr("one rank has no pairs to measure"));
  EXPECT_THAT(run_command(doctor + " --no-pairs").output, Not(HasSubstr("\npairs\n")));
}

TEST(Doctor, WritesJsonInsteadOfWords) {
  const Outcome outcome = run_command(doctor + " --ranks 2 --transport tcp --json - 2>/dev/null");
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json.at("machines").size(), 1U);
  EXPECT_EQ(json.at("machines").at(0).at("ranks").size(), 2U);
  const Finding measured = finding_from(json.at("pairs").back());
  const auto& pair = measured.data.at("pairs").at(0);
  EXPECT_EQ(pair.at("transport"), "tcp");
  EXPECT_GT(pair.at("latency_us"), 0);
  EXPECT_GT(pair.at("bandwidth_gbs"), 0);
}

#ifdef TUTTI_HAVE_VERBS
TEST(Doctor, RdmaVariablesAreWrongWithoutDevicesToo) {
  const std::string alone = doctor + " --no-pairs";
  for (const std::string wrong : {"TUTTI_VERBS_PORT=first ", "TUTTI_VERBS_DEVICES=none_of_this_name "}) {
    const Outcome outcome = run_command(wrong + alone);
    EXPECT_EQ(outcome.status, 1) << wrong;
    EXPECT_THAT(outcome.output, HasSubstr("TUTTI_VERBS_* ask for what cannot be")) << wrong;
  }
  EXPECT_THAT(run_command("TUTTI_TRANSPORT=tcp TUTTI_VERBS_PORT=first " + alone).output,
              Not(HasSubstr("ask for what cannot be")))
      << "uses no RDMA";
}
#endif

// The byte is that of a name in Latin-1.
TEST(Doctor, TellsOtherNamesThanThoseOfUtf8) {
  const Outcome outcome = run_command(doctor + " --interface \"$(printf '\\351th0')\" --json - 2>/dev/null");
  const auto json = nlohmann::json::parse(outcome.output);
  std::string network;
  for (const auto& finding : json.at("machines").at(0).at("findings"))
    if (finding.at("area") == "network") network = finding.at("what").get<std::string>();
  EXPECT_THAT(network, HasSubstr("interface \xef\xbf\xbdth0, which was asked for, does not exist"));
}

TEST(Doctor, RunsUnderMpirun) {
  const std::string mpirun = TUTTI_MPIRUN;
  if (mpirun.empty()) GTEST_SKIP() << "there is no mpirun";
#ifndef TUTTI_HAVE_PMIX
  GTEST_SKIP() << "built without PMIx";
#endif
  // PMIx leaks a few bytes of its own.
  const Outcome outcome =
      run_command("ASAN_OPTIONS=detect_leaks=0 " + mpirun + " --allow-run-as-root --oversubscribe -n 2 " +
                  doctor + " --json - 2>/dev/null");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(nlohmann::json::parse(outcome.output).at("machines").at(0).at("ranks").size(), 2U);
}

TEST(Doctor, AGroupThatDoesNotComeTogetherIsAnError) {
  const std::string id = bootstrap::reserve_id("127.0.0.1").to_string();
  const Outcome outcome =
      run_command("TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_ID=" + id + " " + doctor + " --timeout 0.5 2>&1");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("the ranks do not come together"));
  EXPECT_THAT(outcome.output, HasSubstr("firewall"));
  EXPECT_THAT(outcome.output, HasSubstr("processors\n"));
}

TEST(Doctor, AGroupThatDoesNotComeTogetherIsToldByEachRank) {
  const std::string id = bootstrap::reserve_id("127.0.0.1").to_string();
  const Outcome outcome =
      run_command("TUTTI_RANK=1 TUTTI_SIZE=2 TUTTI_ID=" + id + " " + doctor + " --timeout 0.1");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, ::testing::StartsWith("tutti-doctor: rank 1: tutti: "));
}

TEST(Doctor, BlamesNoFirewallForARankZeroInTheWrongPlace) {
  const std::vector<int> allowed = allowed_processors();
  ASSERT_FALSE(allowed.empty());
  const std::string id = bootstrap::make_id({{"192.0.2.77", 4321}, {}}).to_string();
  const Outcome outcome = run_command("taskset --cpu-list " + std::to_string(allowed.back()) +
                                      " env TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_ID=" + id + " " + doctor);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("come together"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("firewall")));
  EXPECT_THAT(outcome.output, ::testing::ContainsRegex(" 1 of [0-9]+ processors may be used"));
}

TEST(Doctor, StartsNoRanksUnderALauncherOfSeveral) {
  const std::string id = bootstrap::reserve_id("127.0.0.1").to_string();
  const Outcome outcome =
      run_command("TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_ID=" + id + " " + doctor + " --ranks 2");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, HasSubstr("--ranks: each of the 2 processes that tutti started would start 2"));
}

TEST(Doctor, FailsWhenItsOutputIsLost) {
  const Outcome outcome = run_command(doctor + " --no-pairs >/dev/full");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("cannot write"));
}

TEST(Doctor, MeasuresNothingThatItCannotWrite) {
  for (const char* ranks : {"", " --ranks 2"}) {
    const Outcome outcome = run_command(doctor + " --json /no/such/folder/x.json" + ranks);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.output,
                AllOf(HasSubstr("cannot write /no/such/folder/x.json"), Not(HasSubstr("processors\n"))));
  }
}

TEST(Doctor, RefusesUnknownOptions) {
  for (const char* options : {"--bogus", "--transport pigeon", "--json ''"})
    EXPECT_EQ(run_command(doctor + " " + options).status, 2) << options;
  EXPECT_EQ(run_command("TUTTI_TRANSPORT=pigeon " + doctor).status, 2) << "that no option could try";
  EXPECT_EQ(run_command(doctor + " --help").status, 0);
}

}  // namespace
}  // namespace tutti::doctor
