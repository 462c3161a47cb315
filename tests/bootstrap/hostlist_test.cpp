#include "bootstrap/hostlist.hpp"

#include <gtest/gtest.h>

#include <tutti/error.hpp>

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
    try {
      expand_hostlist(text);
      ADD_FAILURE() << "\"" << text << "\" was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("\"" + std::string(text) + "\""), std::string::npos)
          << error.what();
    }
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
