// What is said about pairs of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "doctor/measure.hpp"
#include "doctor/pairs.hpp"

namespace tutti::doctor {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Pair pair(int a, int b, double latency, double bandwidth) {
  return {.a = a,
          .b = b,
          .transport = "tcp",
          .explanation = "via eth0",
          .latency_us = latency,
          .gigabytes = bandwidth};
}
PairFacts four() { return {.machine = {"m0", "m1", "m2", "m3"}, .ports = "32768-60999"}; }

/// So many machines of so many ranks, which come in turn, or one machine after the other.
std::vector<Machine> machines_of(int machines, int ranks, bool in_turn = false) {
  std::vector<Machine> all(static_cast<std::size_t>(machines));
  for (int rank = 0; rank < machines * ranks; ++rank)
    all[static_cast<std::size_t>(in_turn ? rank % machines : rank / ranks)].ranks.push_back(rank);
  return all;
}

TEST(DoctorPairs, AreOfAllRanksWhereTheyAreFew) {
  std::vector<int> all(32);
  std::iota(all.begin(), all.end(), 0);
  for (const int machines : {1, 2, 32}) EXPECT_EQ(choose_ranks(machines_of(machines, 32 / machines)), all);
  EXPECT_EQ(choose_ranks(machines_of(4, 8, true)), all);
}

TEST(DoctorPairs, OfManyRanksAreFromAllOverTheMachines) {
  const auto one = choose_ranks(machines_of(1, 96));
  ASSERT_EQ(one.size(), 32U);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i], static_cast<int>(3 * i));
  EXPECT_THAT(choose_ranks(machines_of(10, 4)), SizeIs(30));
  EXPECT_TRUE(std::ranges::is_sorted(choose_ranks(machines_of(10, 4, true))));
  EXPECT_THAT(choose_ranks(machines_of(100, 8)), SizeIs(32));
  auto uneven = machines_of(2, 40);
  uneven[1].ranks = {40, 41};
  EXPECT_THAT(choose_ranks(uneven), SizeIs(18));
}

TEST(DoctorPairs, NamesWhoIsBlockedAndThePorts) {
  PairFacts facts = four();
  facts.blocked = {{.from = 1, .to = 2, .address = "10.0.0.3:4000", .why = "no answer"}};
  const Finding finding = examine(facts).at(0);
  EXPECT_EQ(finding.level, Level::error);
  EXPECT_THAT(finding.what,
              HasSubstr("rank 1 (m1) cannot connect to rank 2 (m2) at 10.0.0.3:4000: no answer"));
  EXPECT_THAT(finding.remedy, HasSubstr("32768-60999"));
  EXPECT_THAT(finding.remedy, HasSubstr("firewall"));
}

TEST(DoctorPairs, ManyBlockedOnesAreSummedUp) {
  PairFacts facts = four();
  facts.blocked.assign(20, {.from = 1, .to = 2});
  EXPECT_THAT(examine(facts).at(8).what, HasSubstr("12 more"));
}

TEST(DoctorPairs, PointsAtTheSlowOne) {
  PairFacts facts = four();
  facts.pairs = {pair(0, 1, 10, 5), pair(0, 2, 11, 5), pair(0, 3, 12, 1)};
  const Findings findings = examine(facts);
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_THAT(findings[0].what, HasSubstr("3 pairs by tcp: 10.00 to 12.00 us"));
  EXPECT_EQ(findings[1].level, Level::warning);
  EXPECT_THAT(findings[1].what, HasSubstr("ranks 0 and 3 are slow"));
  EXPECT_THAT(findings[2].table, HasSubstr("rank 3"));
  EXPECT_EQ(findings[2].data.at("pairs").size(), 3U);
}

TEST(DoctorPairs, SaysHowManyTookPart) {
  PairFacts facts = four();
  facts.left_out = 1;
  EXPECT_THAT(examine(facts).at(0).what, HasSubstr("4 ranks are too many, these are of 3 from all over"));
}

// Their own communicator counts the two from 0.
TEST(DoctorPairs, RanksOfAPairAreThoseOfTheJob) {
  PairFacts facts = four();
  Pair failed = pair(2, 3, 0, 0), other = pair(0, 2, 10, 5), first = pair(0, 1, 10, 5);
  failed.error = "nothing moved for 500 ms; waiting for rank 1";
  other.explanation = first.explanation = "tcp via eth0 (verbs: rank 1 has no usable RDMA device)";
  first.transport = "verbs";
  facts.pairs = {failed, other, first};
  const Findings findings = examine(facts);
  ASSERT_EQ(findings.size(), 4U);
  EXPECT_THAT(findings[0].what, HasSubstr("waiting for rank 1 (rank 0 is 2 here, rank 1 is 3)"));
  EXPECT_THAT(findings[1].what, HasSubstr("no usable RDMA device) (rank 0 is 0 here, rank 1 is 2)"));
  EXPECT_THAT(findings[2].what, EndsWith("no usable RDMA device)"));
  EXPECT_THAT(findings[3].data.at("pairs").at(1).at("explanation"), HasSubstr("rank 1 is 2"));
}

TEST(DoctorPairs, FailuresAreErrors) {
  PairFacts facts = four();
  Pair failed = pair(0, 1, 0, 0);
  failed.error = "timeout";
  facts.pairs = {failed};
  facts.given_up = true;
  const Findings findings = examine(facts);
  EXPECT_EQ(findings[0].level, Level::error);
  EXPECT_THAT(findings[0].what, HasSubstr("ranks 0 (m0) and 1 (m1) do not work together: timeout"));
  EXPECT_THAT(findings[1].what, HasSubstr("not tried"));
  EXPECT_THAT(findings[0].remedy, HasSubstr("try --transport tcp"));
  facts.pairs[0].code = ErrorCode::system;
  EXPECT_THAT(examine(facts)[0].remedy, HasSubstr("try --transport tcp"))
      << "it may be that of an RDMA device";
  facts.pairs[0].error = "Too many open files; raise this process's limit of file descriptors (ulimit -n)";
  EXPECT_EQ(examine(facts)[0].remedy, "") << "no transport is at fault";
  facts.pairs[0].error = "timeout";
  facts.pairs[0].code = ErrorCode::invalid_argument;
  EXPECT_EQ(examine(facts)[0].remedy, "") << "no transport is at fault";
  facts.pairs[0].code = ErrorCode::timeout;
  facts.wanted = "tcp";
  EXPECT_EQ(examine(facts)[0].remedy, "") << "it was tried";
}

TEST(DoctorPairs, TheCauseStaysWhoeverMetIt) {
  const auto of_both = [](ErrorCode first, ErrorCode second) {
    Pair failed;
    note_failure(failed, first, "first");
    note_failure(failed, second, "second");
    EXPECT_EQ(failed.code, failed.error == "first" ? first : second);
    return failed.error;
  };
  EXPECT_EQ(of_both(ErrorCode::aborted, ErrorCode::system), "second");
  EXPECT_EQ(of_both(ErrorCode::system, ErrorCode::aborted), "first");
  EXPECT_EQ(of_both(ErrorCode::timeout, ErrorCode::system), "first");
  EXPECT_EQ(of_both(ErrorCode::peer_lost, ErrorCode::aborted), "first");
}

}  // namespace
}  // namespace tutti::doctor
