// hwloc's files, and this machine as hwloc sees it.
#include <gmock/gmock.h>

#include "samples.hpp"
#include "topology/hwloc.hpp"
#include "topology/paths.hpp"

namespace tutti::topology {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::lstopo;
using ::testing::Not;
using testing::refusal;
using testing::with;

using HwlocFile = testing::Xml;

TEST_F(HwlocFile, DevicesAndTheirPlaces) {
  const Machine machine = from_text(testing::lstopo, "sample");
  EXPECT_EQ(machine.count(NodeKind::cpu), 2U);
  EXPECT_EQ(machine.node(machine.find("cpu1")).package, 1);
  EXPECT_EQ(machine.node(machine.find("cpu0")).details.at("vendor"), "GenuineIntel");
  EXPECT_EQ(machine.count(NodeKind::gpu), 2U) << "the board's own display is none";
  EXPECT_EQ(machine.node(machine.find("gpu1")).pci, "0000:04:00.0") << "CUDA's number";
  EXPECT_EQ(machine.node(machine.find("gpu1")).label, "Tesla V100");
  EXPECT_EQ(machine.count(NodeKind::bridge), 1U) << "ports of the switch are no switches";
  EXPECT_EQ(machine.count(NodeKind::nic), 2U) << "two functions are one adapter";
  EXPECT_EQ(machine.count(NodeKind::port), 3U);
  EXPECT_TRUE(machine.node(machine.find("mlx5_1")).rdma);
  EXPECT_EQ(machine.find("ib0"), no_node) << "the interface of an RDMA port is no port of its own";
  EXPECT_FALSE(machine.node(machine.find("eth0")).rdma);
  const Path near = path(machine, machine.find("gpu0"), machine.find("mlx5_0"));
  EXPECT_EQ(near.kind, PathClass::pcie_switch);
  EXPECT_NEAR(near.bandwidth, 6, 1e-3) << "x8 of the third generation";
}

TEST_F(HwlocFile, DisplayControllersThatAreKnownToCompute) {
#if TUTTI_HAVE_EXPAT
  const Machine machine = from_hwloc_xml(parse_xml(lstopo), {"0000:0b:00.0"});
  EXPECT_EQ(machine.count(NodeKind::gpu), 3U);
  EXPECT_EQ(path(machine, machine.find("0000:0b:00.0"), machine.find("cpu0")).hops(), 1U);
#endif
}

TEST_F(HwlocFile, NvlinksFromTheMatrix) {
  const Machine machine = from_text(testing::lstopo, "sample");
  const auto links = [&](const char* a, const char* b) {
    for (const Link& link : machine.links)
      if (link.kind == LinkKind::nvlink &&
          std::minmax(link.a, link.b) == std::minmax(machine.find(a), machine.find(b)))
        return link.count;
    return 0;
  };
  EXPECT_EQ(links("gpu0", "gpu1"), 2);
  EXPECT_EQ(links("gpu0", "nvswitch0"), 1);
  EXPECT_EQ(links("gpu1", "nvswitch0"), 1);
}

TEST_F(HwlocFile, VersionThreeAndOlder) {
  const std::string three = with(lstopo, "version=\"2.0\"", "version=\"3.0\"");
  EXPECT_EQ(from_text(three, "sample").count(NodeKind::gpu), 2U);
  EXPECT_THAT(refusal(with(lstopo, "version=\"2.0\"", "")), HasSubstr("line 3: <topology>: version \"\""));
}

TEST_F(HwlocFile, WhatIsNotKnownIsSaid) {
  const Machine machine = from_text(testing::lstopo, "sample");
  EXPECT_THAT(machine.unseen, Contains(HasSubstr("which NUMA domain 0000:80:02.0 is near to")));
  EXPECT_THAT(machine.unseen, Contains(HasSubstr("rates of network ports")));
}

// As hwloc shows HBM, and memory behind CXL: with the processors that are near to it.
TEST_F(HwlocFile, MemoryOfAnotherKindIsNoDomain) {
  const std::string own = R"(<object type="NUMANode" os_index="0" cpuset="0x0000000f" )";
  const std::string hbm =
      R"(<object type="NUMANode" os_index="2" cpuset="0x0000000f" nodeset="0x00000004"/>)";
  const std::string package = R"(cpuset="0x0000000f" nodeset="0x00000001" gp_index="2")";
  const Machine machine = from_text(
      with(with(lstopo, own, hbm + own), package, R"(cpuset="0x0000000f" nodeset="0x00000005")"), "sample");
  EXPECT_EQ(machine.count(NodeKind::cpu), 2U);
  EXPECT_EQ(machine.node(machine.find("cpu0")).details.at("numaid"), "0");
  EXPECT_THAT(machine.unseen, Not(Contains(HasSubstr("0000:04:00.0")))) << "its package has one domain";
}

/// On the second of two packages, which has two domains, a GPU.
constexpr const char* of_version_three = R"(<topology version="3.0">
  <object type="Machine" cpuset="0x000000ff" nodeset="0x00000007">
    <object type="Package" os_index="0" cpuset="0x0000000f" nodeset="0x00000001">
      <object type="NUMANode" os_index="0" cpuset="0x0000000f" nodeset="0x00000001"/>
    </object>
    <object type="Package" os_index="1" cpuset="0x000000f0" nodeset="0x00000006">
      <object type="NUMANode" os_index="1" cpuset="0x00000030" nodeset="0x00000002"/>
      <object type="NUMANode" os_index="2" cpuset="0x000000c0" nodeset="0x00000004"/>
      <object type="PCIDev" pci_busid="0000:80:00.0" pci_type="0302 [10de:1db8] [10de:131d] a1"/>
    </object>
  </object>
  <info name="Architecture" value="aarch64"/>
</topology>)";

// hwloc counts it among what is near to whatever is near to any of them.
TEST_F(HwlocFile, MemoryOfSeveralDomainsMakesNoneUncertain) {
  const Machine machine =
      from_text(with(of_version_three, R"(cpuset="0x000000c0")", R"(cpuset="0x000000ff")"), "sample");
  EXPECT_EQ(machine.count(NodeKind::cpu), 2U);
  EXPECT_THAT(machine.unseen, ElementsAre());
  EXPECT_EQ(path(machine, machine.find("cpu1"), machine.find("gpu0")).hops(), 1U);
}

TEST_F(HwlocFile, ArchitectureOfVersionThree) {
  const Machine machine = from_text(of_version_three, "sample");
  EXPECT_EQ(machine.node(machine.find("cpu2")).details.at("arch"), "arm64");
}

// Which numbers kinds of devices otherwise: 2, once a network, is memory.
TEST_F(HwlocFile, DevicesOfVersionThree) {
  const std::string devices = R"(<object type="OSDev" name="dax0.0" osdev_type="2"/>
      <object type="OSDev" name="hsn0" osdev_type="16"/>
      <object type="PCIDev" pci_busid="0000:81:00.0" pci_type="0207 [15b3:1017] [15b3:0003] 00">
        <object type="OSDev" name="ib0" osdev_type="16"/>
        <object type="OSDev" name="mlx5_0" osdev_type="48"/>
      </object>
    </object>
  </object>)";
  const Machine machine = from_text(with(of_version_three, "</object>\n  </object>", devices), "sample");
  EXPECT_EQ(machine.count(NodeKind::port), 2U);
  EXPECT_FALSE(machine.node(machine.find("hsn0")).rdma);
  EXPECT_TRUE(machine.node(machine.find("mlx5_0")).rdma);
}

TEST_F(HwlocFile, TheDomainThatIsTakenIsSaid) {
  const Machine machine = from_text(of_version_three, "sample");
  EXPECT_THAT(machine.unseen, ElementsAre("which NUMA domain 0000:80:00.0 is near to; taken: cpu1"));
  EXPECT_EQ(path(machine, machine.find("cpu1"), machine.find("gpu0")).hops(), 1U);
  const Machine bare = from_text(
      with(with(of_version_three, R"(nodeset="0x00000006")", ""), R"(nodeset="0x00000007")", ""), "sample");
  EXPECT_THAT(bare.unseen, ElementsAre(HasSubstr("taken: cpu0")));
}

TEST_F(HwlocFile, LongDomains) {
  const Machine machine =
      from_text(with(lstopo, "pci_busid=\"0000:04:00.0\"", "pci_busid=\"10000:04:00.0\""), "sample");
  EXPECT_EQ(machine.node(machine.find("gpu1")).pci, "10000:04:00.0");
  EXPECT_EQ(from_text(with(lstopo, "pci_busid=\"0000:0c:00.0\"", "pci_busid=\"odd\""), "sample")
                .count(NodeKind::gpu),
            2U)
      << "of a device that is not looked at";
}

TEST_F(HwlocFile, Errors) {
  EXPECT_THAT(refusal(with(lstopo, "pci_busid=\"0000:04:00.0\"", "pci_busid=\"x\"")),
              HasSubstr("line 15: <object>: pci_busid"));
  EXPECT_THAT(refusal(with(lstopo, "25000 25000 0 ", "25000 25000")), HasSubstr("8 values for 3 devices"));
  EXPECT_THAT(refusal("<topology version=\"2.0\"/>"), HasSubstr("holds no Machine"));
  EXPECT_THAT(refusal("<topology version=\"2.0\"><object type=\"Machine\"/></topology>"),
              HasSubstr("no NUMANode"));
  EXPECT_THAT(refusal(with(lstopo, "pci_link_speed=\"2.000000\"", "pci_link_speed=\"-3\"")),
              HasSubstr("line 47"));
}

TEST_F(HwlocFile, ThisMachine) {
#if TUTTI_HAVE_HWLOC
  const Machine machine = from_hwloc_xml(parse_xml(hwloc_xml_of_this_machine()));
  EXPECT_NO_THROW(check(machine));
  EXPECT_GE(machine.count(NodeKind::cpu), 1U);
#else
  GTEST_SKIP() << "this build is without hwloc";
#endif
}

}  // namespace
}  // namespace tutti::topology
