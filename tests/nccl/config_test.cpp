// What the environment says.
#include "nccl/config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "bootstrap/rendezvous.hpp"
#include "nccl/clients.hpp"
#include "nccl/result.hpp"
#include "topology/interface.hpp"

namespace tutti::test {
namespace {

class NcclEnvironment : public testing::Test {
 protected:
  NcclEnvironment() { clear(); }
  ~NcclEnvironment() override { clear(); }
  NcclEnvironment(const NcclEnvironment&) = delete;
  NcclEnvironment& operator=(const NcclEnvironment&) = delete;

  static std::string interface_for(const char* wanted) {
    ::setenv("NCCL_SOCKET_IFNAME", wanted, 1);
    return options_from_environment().interface;
  }

 private:
  static void clear() {
    for (const char* name : {"NCCL_SOCKET_IFNAME", "NCCL_COMM_BLOCKING", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
                             "TUTTI_INTERFACE", "TUTTI_TIMEOUT"})
      ::unsetenv(name);
  }
};

TEST_F(NcclEnvironment, SaysWhichInterface) {
  for (const char* wanted : {"lo", "l", "=lo", "nothing,lo", "=nothing,lo"})
    EXPECT_EQ(interface_for(wanted), "lo");
  for (const char* wanted : {"nothing", "=l", "=nothing,l"}) EXPECT_EQ(interface_for(wanted), wanted);
  EXPECT_EQ(interface_for(""), "");
  std::vector<std::string> others;
  for (const auto& interface : topology::interfaces())
    if (interface.up && !interface.loopback && !topology::address_for_others(interface).empty())
      others.push_back(interface.name);
  others.emplace_back();  // where there are no more
  EXPECT_EQ(interface_for("^nothing"), others[0]);
  EXPECT_EQ(interface_for(("^=" + others[0]).c_str()), others[others[0].empty() ? 0 : 1]);
  ::setenv("TUTTI_INTERFACE", "127.0.0.1", 1);
  EXPECT_EQ(interface_for("nothing"), "127.0.0.1");
}

// A variable that is empty is not set, as everywhere.
TEST_F(NcclEnvironment, SaysHowLongToWait) {
  using namespace std::chrono_literals;
  EXPECT_EQ(options_from_environment().timeout, 30min);
  ::setenv("TUTTI_TIMEOUT", "", 1);
  EXPECT_EQ(options_from_environment().timeout, 30min);
  ::setenv("TUTTI_TIMEOUT", "2.5", 1);
  EXPECT_EQ(options_from_environment().timeout, 2500ms);
}

// An id says nothing of how many hosts there are.
TEST_F(NcclEnvironment, MakesRanksMeetWhereOtherHostsCome) {
  const bool others_come = std::ranges::any_of(topology::interfaces(), [](const auto& one) {
    return one.up && !one.loopback && !topology::address_for_others(one).empty();
  });
  const std::string address = bootstrap::read(new_id()).endpoint.address;
  EXPECT_NE(topology::is_loopback(address), others_come) << address;
}

TEST_F(NcclEnvironment, SaysHowManyBlocksWhateverTheProgram) {
  ncclConfig_t given = initial_config;
  given.maxCTAs = 8;
  EXPECT_EQ(resolve(&given, default_config()).blocks, 8);
  for (const char* const nothing : {"", "0", "-1", "many"}) {
    ::setenv("NCCL_MAX_CTAS", nothing, 1);
    EXPECT_EQ(resolve(&given, default_config()).blocks, 8) << nothing;
  }
  ::setenv("NCCL_MAX_CTAS", "3", 1);
  EXPECT_EQ(resolve(&given, default_config()).blocks, 3);
  EXPECT_EQ(resolve(nullptr, default_config()).blocks, 3);
  ::unsetenv("NCCL_MAX_CTAS");
  ::setenv("NCCL_MIN_CTAS", "6", 1);  // which is less already
  EXPECT_EQ(resolve(&given, default_config()).blocks, 8);
  ::setenv("NCCL_MIN_CTAS", "24", 1);
  EXPECT_EQ(resolve(&given, default_config()).blocks, 24);
  EXPECT_EQ(default_config().blocks, 24);
}

TEST_F(NcclEnvironment, SaysWhetherCallsBlockWhateverTheProgram) {
  ncclConfig_t given = initial_config;
  given.blocking = 0;
  EXPECT_TRUE(default_config().blocking);
  for (const char* const nothing : {"", "2", "no"}) {
    ::setenv("NCCL_COMM_BLOCKING", nothing, 1);
    EXPECT_FALSE(resolve(&given, default_config()).blocking) << nothing;
  }
  ::setenv("NCCL_COMM_BLOCKING", "1", 1);
  EXPECT_TRUE(resolve(&given, default_config()).blocking);
  ::setenv("NCCL_COMM_BLOCKING", "0", 1);
  EXPECT_FALSE(resolve(&initial_config, default_config()).blocking);
  EXPECT_FALSE(default_config().blocking);
}

TEST_F(NcclEnvironment, DoesNotMatterForValuesThatNcclRefuses) {
  using Field = int ncclConfig_t::*;
  for (const Field field :
       {&ncclConfig_t::blocking, &ncclConfig_t::minCTAs, &ncclConfig_t::maxCTAs,
        &ncclConfig_t::cgaClusterSize, &ncclConfig_t::splitShare, &ncclConfig_t::shrinkShare,
        &ncclConfig_t::CTAPolicy, &ncclConfig_t::collnetEnable, &ncclConfig_t::nvlsCTAs,
        &ncclConfig_t::nChannelsPerNetPeer, &ncclConfig_t::nvlinkCentricSched}) {
    ncclConfig_t given = initial_config;
    given.*field = 1;
    EXPECT_NO_THROW(resolve(&given, default_config()));
    given.*field = -1;
    EXPECT_THROW(resolve(&given, default_config()), Failure);
  }
}

TEST_F(NcclEnvironment, IsAllThatAPartWithAConfigInherits) {
  Config parent;
  parent.blocking = false;
  parent.blocks = 2;
  parent.name = "parent";
  const Config alike = resolve(nullptr, parent), own = resolve(&initial_config, parent);
  EXPECT_FALSE(alike.blocking);
  EXPECT_EQ(alike.blocks, 2);
  EXPECT_EQ(alike.name, "parent");
  EXPECT_TRUE(own.blocking);
  EXPECT_EQ(own.blocks, Config{}.blocks);
  EXPECT_EQ(own.name, "");
}

}  // namespace
}  // namespace tutti::test
