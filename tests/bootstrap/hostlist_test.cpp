#include "bootstrap/hostlist.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "bootstrap/launched.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/ranks.hpp"
#include "bootstrap/rendezvous.hpp"

namespace tutti::bootstrap {
namespace {

using Names = std::vector<std::string>;

struct Expansion {
  const char* list;
  Names hosts;
};
class Hostlists : public testing::TestWithParam<Expansion> {};
INSTANTIATE_TEST_SUITE_P(
    Hostlist, Hostlists,
    testing::Values(Expansion{"node", {"node"}}, Expansion{"a,b,c", {"a", "b", "c"}},
                    Expansion{"node[1-3]", {"node1", "node2", "node3"}},
                    Expansion{"node[01-04,7],other",
                              {"node01", "node02", "node03", "node04", "node7", "other"}},
                    Expansion{"n[08-11]", {"n08", "n09", "n10", "n11"}}, Expansion{"n[9-10]", {"n9", "n10"}},
                    Expansion{"n[5]", {"n5"}}, Expansion{"n[007]", {"n007"}},
                    Expansion{"r[1-2]n[1-2]", {"r1n1", "r1n2", "r2n1", "r2n2"}},
                    Expansion{"n[1-2].cluster.org", {"n1.cluster.org", "n2.cluster.org"}},
                    Expansion{"gpu-a-[1,3]x,z", {"gpu-a-1x", "gpu-a-3x", "z"}},
                    Expansion{"[1-2]", {"1", "2"}}));

TEST_P(Hostlists, Expands) { EXPECT_EQ(expand_hostlist(GetParam().list), GetParam().hosts); }

TEST(Hostlist, RefusesWhatIsNoList) {
  for (const char* text : {"",
                           ",",
                           "a,",
                           ",a",
                           "a,,b",
                           "n[",
                           "n]",
                           "n[1",
                           "n[1-]",
                           "n[-2]",
                           "n[]",
                           "n[3-1]",
                           "n[a-b]",
                           "n[1-2-3]",
                           "n[[1]]",
                           "n[1,]",
                           "n[1-99999999999999999999]",
                           "n[0-4000000000]",
                           "n[0-18446744073709551615]",
                           "a[1-2000]b[1-2000]",
                           "n[1]]",
                           "][1"}) {
    const auto error = test::thrown_by([&] { expand_hostlist(text); });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << text;
    EXPECT_NE(error.text.find("\"" + std::string(text) + "\""), std::string::npos) << error.text;
  }
}

// Before they fill the memory.
TEST(Hostlist, RefusesManyLongRangesAndNames) {
  std::string list = "n[0";
  for (int i = 0; i < 1000; ++i) list += ",0-999999";
  EXPECT_THROW(expand_hostlist(list + "]"), Error);
  const std::string zeros(100'000, '0');
  for (const std::string& one :
       {zeros, zeros + "[0-999998]", "n[" + zeros + "-999998]", "n[0-999998]" + zeros})
    EXPECT_THROW(expand_hostlist(one), Error) << one.substr(0, 3);
  std::string long_and_short;  // 2^19 names, of which the last one is short
  for (int i = 0; i < 19; ++i) long_and_short += "[" + zeros.substr(0, 200) + "1,2]";
  EXPECT_THROW(expand_hostlist(long_and_short), Error);
  EXPECT_EQ(expand_hostlist("n[8-9]." + zeros.substr(0, 250)).size(), 2U);
}

TEST(Hostfile, NamesTheFirstHost) {
  for (const char* text : {"n3", "n3\nn1\n", "# first\n\n  n3 # and then\nn1", "n3,n1", "n3*2\nn1", "\tn3 n1",
                           "n3,\nn1", "n[3,1]\nn2", "n[3,1]*2", "#\r\nn3\r\nn1\r\n"})
    EXPECT_EQ(first_of_hostfile(text), "n3") << text;
  for (const char* text : {"", "\n \n", "# n3", "#n3\n#"}) EXPECT_EQ(first_of_hostfile(text), "") << text;
  EXPECT_THROW(first_of_hostfile("n[3"), Error);
}

TEST(Hostfile, SaysWhereRankZeroIs) {
  using test::thrown_by;
  const std::string file = testing::TempDir() + "tutti-hosts." + std::to_string(::getpid());
  std::ofstream(file) << "127.0.0.4\n127.0.0.3\n";
  const auto met_at = [](test::Variables variables) {
    variables.merge(test::Variables{{"SLURM_NTASKS", "2"},
                                    {"SLURM_STEP_ID", "0"},
                                    {"SLURM_JOB_ID", "7"},
                                    {"SLURM_STEP_NODELIST", "127.0.0.[3-4]"},
                                    {"SLURM_PROCID", "1"},
                                    {"SLURM_NODEID", "0"},
                                    {"SLURM_DISTRIBUTION", "arbitrary"}});
    const test::Environment environment(variables);
    const Deadline deadline(std::chrono::seconds(60));
    return read(find_launcher(deadline)->agree("", deadline)).endpoint.address;
  };
  EXPECT_EQ(met_at({{"SLURM_HOSTFILE", file}}), "127.0.0.4");
  EXPECT_EQ(met_at({{"SLURM_HOSTFILE", file}, {"SLURM_DISTRIBUTION", "block"}}), "127.0.0.3");
  EXPECT_EQ(met_at({{"SLURM_HOSTFILE", "/none"}}), "127.0.0.3");
  const test::Variables zero{{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "1"}};
  const auto thrown = thrown_by([&] { met_at(zero); });
  EXPECT_EQ(thrown.code, ErrorCode::unsupported);
  EXPECT_THAT(thrown.text,
              testing::HasSubstr("rank 0 on 127.0.0.4, and other ranks look for it on 127.0.0.3"));
  std::remove(file.c_str());
}

TEST(TasksPerNode, Expands) {
  EXPECT_EQ(expand_tasks_per_node("4"), (std::vector{4}));
  EXPECT_EQ(expand_tasks_per_node("2(x3),1"), (std::vector{2, 2, 2, 1}));
  EXPECT_EQ(expand_tasks_per_node("1,16(x2)"), (std::vector{1, 16, 16}));
}

TEST(TasksPerNode, RefusesWhatIsNoList) {
  for (const char* text : {"", "x", "2(x", "2(x)", "2(x3", "2(3)", "(x3)", "2(x3))", "-1", "2(x99999999)"})
    EXPECT_THROW(expand_tasks_per_node(text), Error) << text;
}

}  // namespace
}  // namespace tutti::bootstrap
