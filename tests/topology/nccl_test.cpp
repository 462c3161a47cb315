// NCCL's files and RCCL's: read, refused, written.
#include <gmock/gmock.h>

#include "samples.hpp"
#include "topology/affinity.hpp"
#include "topology/assemble.hpp"
#include "topology/nccl.hpp"
#include "topology/paths.hpp"

namespace tutti::topology {
namespace {

using testing::complete;
using ::testing::HasSubstr;
using testing::known;
using testing::refusal;
using testing::with;

using NcclFile = testing::Xml;

const Link* link_between(const Machine& machine, const char* a, const char* b, LinkKind kind) {
  for (const Link& link : machine.links)
    if (link.kind == kind && std::minmax(link.a, link.b) == std::minmax(machine.find(a), machine.find(b)))
      return &link;
  return nullptr;
}

TEST_F(NcclFile, Complete) {
  const Machine machine = from_text(testing::complete, "sample");
  EXPECT_EQ(machine.count(NodeKind::cpu), 2U);
  EXPECT_EQ(machine.count(NodeKind::gpu), 2U);
  EXPECT_EQ(machine.count(NodeKind::port), 3U);
  EXPECT_EQ(machine.node(machine.find("gpu1")).pci, "0000:07:00.0") << "numbered as \"dev\" says";
  EXPECT_TRUE(machine.node(machine.find("gpu1")).rdma);
  EXPECT_FALSE(machine.node(machine.find("gpu0")).rdma);
  EXPECT_EQ(machine.node(machine.find("port0")).label, "mlx5_0");
  const Link* pair = link_between(machine, "gpu0", "gpu1", LinkKind::nvlink);
  ASSERT_NE(pair, nullptr);
  EXPECT_EQ(pair->count, 4) << "told by both GPUs, and counted once";
  EXPECT_DOUBLE_EQ(pair->bandwidth, 4 * 20.6);
  EXPECT_EQ(link_between(machine, "gpu1", "nvswitch0", LinkKind::nvlink)->count, 3) << "of two switches";
  EXPECT_EQ(link_between(machine, "gpu0", "nvswitch0", LinkKind::nvlink)->count, 3);
  EXPECT_DOUBLE_EQ(link_between(machine, "nic0", "port0", LinkKind::wire)->bandwidth, 50);
  EXPECT_DOUBLE_EQ(link_between(machine, "bridge0", "nic0", LinkKind::pcie)->bandwidth, 24);
  EXPECT_TRUE(link_between(machine, "cpu1", "gpu0", LinkKind::pcie)->assumed) << "no speed in the file";
  EXPECT_TRUE(link_between(machine, "nic1", "port2", LinkKind::wire)->assumed) << "speed -1";
  EXPECT_FALSE(machine.node(machine.find("eth0")).rdma);
  EXPECT_DOUBLE_EQ(link_between(machine, "cpu0", "cpu1", LinkKind::socket)->bandwidth, 22);
}

// As to NCCL: they share a PCIe link.
TEST_F(NcclFile, FunctionsOfOneAdapterAreOne) {
  const std::string first = R"(<pci busid="0000:08:00.0" )";
  const std::string second = R"(<pci busid="0000:08:00.1" class="0x020700">
        <nic><net name="mlx5_2" dev="3" speed="200000" port="1" guid="0x12" gdr="1"/></nic>
      </pci>)";
  const Machine machine = from_text(with(complete, first, second + first), "sample");
  EXPECT_EQ(machine.count(NodeKind::nic), 2U) << "and that on no bus";
  EXPECT_EQ(path(machine, machine.find("mlx5_0"), machine.find("mlx5_2")).hops(), 2U);
  const Machine bare = from_text(with(testing::skeleton, "0101:00:00.0", "0102:00:00.1"), "sample");
  EXPECT_EQ(bare.count(NodeKind::nic), 1U);
  EXPECT_EQ(bare.count(NodeKind::port), 2U);
}

TEST_F(NcclFile, SocketsSpeakNoRdma) {
  const std::string sockets = R"(port="0" guid="0x0" gdr="0"/>
      <net name="eth1" dev="3" speed="10000" port="0" guid="0x1" gdr="0"/>)";
  const Machine machine = from_text(with(with(complete, R"(port="0" guid="0x0" gdr="0"/>)", sockets),
                                         R"(maxconn="1" gdr="1")", R"(maxconn="1" gdr="0")"),
                                    "sample");
  EXPECT_FALSE(machine.node(machine.find("eth0")).rdma);
  EXPECT_FALSE(machine.node(machine.find("eth1")).rdma);
  EXPECT_TRUE(machine.node(machine.find("mlx5_1")).rdma) << "without GPUDirect, too";
}

// As NCCL writes them: "" without /sys, and what Linux says of a device that does not tell.
TEST_F(NcclFile, LanesThatAreNotKnown) {
  const auto link = [](const char* told) {
    const Machine machine = from_text(with(complete, R"(link_speed="" link_width="0")", told), "sample");
    return *link_between(machine, "cpu1", "gpu0", LinkKind::pcie);
  };
  EXPECT_TRUE(link(R"(link_speed="" link_width="")").assumed);
  EXPECT_TRUE(link(R"(link_speed="Unknown" link_width="255")").assumed);
  EXPECT_DOUBLE_EQ(link(R"(link_speed="32.0 GT/s PCIe" link_width="255")").bandwidth, 48) << "of 16 lanes";
  EXPECT_THAT(refusal(with(complete, R"(link_width="16")", R"(link_width="254")")), HasSubstr("line 3"));
}

TEST_F(NcclFile, Skeleton) {
  const Machine machine = from_text(testing::skeleton, "sample");
  EXPECT_EQ(machine.count(NodeKind::gpu), 2U);
  EXPECT_EQ(machine.count(NodeKind::port), 2U);
  EXPECT_EQ(machine.count(NodeKind::bridge), 1U) << "the one that leads nowhere is left out";
  EXPECT_EQ(machine.node(machine.find("gpu0")).pci, "0001:00:00.0") << "by address";
  EXPECT_TRUE(machine.node(machine.find("port0")).rdma);
  const auto ports = ports_of(machine, machine.all(NodeKind::gpu));
  EXPECT_EQ(ports[0].front(), machine.find("port0"));
  EXPECT_EQ(ports[1].front(), machine.find("port1"));
  EXPECT_THAT(machine.unseen, Contains(HasSubstr("2 GPUs are known by their PCI class only")));
  EXPECT_THAT(machine.unseen, Contains(HasSubstr("2 adapters are known by their PCI class only")));
  EXPECT_THAT(machine.unseen, Contains(HasSubstr("1 NVSwitches without a word")));
}

TEST_F(NcclFile, DialectOfRccl) {
  const Machine machine = from_text(testing::amd, "sample");
  const Link* pair = link_between(machine, "gpu0", "gpu1", LinkKind::xgmi);
  ASSERT_NE(pair, nullptr);
  EXPECT_EQ(pair->count, 1);
  EXPECT_DOUBLE_EQ(pair->bandwidth, 48);
  EXPECT_EQ(path(machine, machine.find("gpu0"), machine.find("gpu1")).kind, PathClass::direct);
}

TEST_F(NcclFile, LevelsOfOneSwitchAreJoined) {
  constexpr const char* level =
      R"(class="0x060400" vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" link_speed="32 GT/s" link_width="16")";
  const auto bridge = [&](const char* bus, const char* subsystem, const std::string& inside) {
    return std::string("<pci busid=\"") + bus + "\" " + level + " subsystem_device=\"" + subsystem + "\">" +
           inside + "</pci>";
  };
  const auto file = [&](const char* upper) {
    return "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\">" +
           bridge("0000:08:00.0", upper,
                  bridge("0000:0d:00.0", "0x1003", "<pci busid=\"0000:0f:00.0\" class=\"0x030200\"/>") +
                      bridge("0000:0a:00.0", "0x1003", "<pci busid=\"0000:0c:00.0\" class=\"0x020700\"/>")) +
           "</cpu></system>";
  };
  const Machine joined = from_text(file("0x0072"), "sample");
  EXPECT_EQ(joined.count(NodeKind::bridge), 1U);
  EXPECT_EQ(path(joined, joined.find("gpu0"), joined.find("nic0")).kind, PathClass::pcie_switch);
  const Machine apart = from_text(file("0x2072"), "sample");
  EXPECT_EQ(apart.count(NodeKind::bridge), 3U);
  EXPECT_EQ(path(apart, apart.find("gpu0"), apart.find("nic0")).kind, PathClass::pcie_switches);
}

TEST_F(NcclFile, ErrorsHaveALine) {
  EXPECT_THAT(refusal(with(complete, "</gpu>", "")), HasSubstr("line 10: mismatched tag"));
  EXPECT_THAT(refusal(std::string(testing::complete).substr(0, 400)), HasSubstr("line 6: unclosed token"));
  EXPECT_THAT(refusal(with(complete, "count=\"4\"", "count=\"many\"")),
              HasSubstr("line 6: <nvlink>: count=\"many\""));
  EXPECT_THAT(refusal(with(complete, "count=\"4\"", "count=\"-4\"")), HasSubstr("line 6"));
  EXPECT_THAT(refusal(with(complete, "count=\"4\"", "count=\"99999999999999999999\"")), HasSubstr("line 6"));
  EXPECT_THAT(refusal(with(complete, "busid=\"0000:07:00.0\"", "busid=\"seven\"")),
              HasSubstr("line 4: <pci>: busid=\"seven\""));
  EXPECT_THAT(refusal(with(complete, "version=\"1\"", "version=\"9\"")),
              HasSubstr("line 1: <system>: version=\"9\""));
  EXPECT_THAT(refusal(with(complete, "link_speed=\"32.0 GT/s PCIe\"", "link_speed=\"1e99\"")),
              HasSubstr("line 3"));
  EXPECT_THAT(refusal("<system version=\"1\"/>"), HasSubstr("holds no <cpu>"));
  EXPECT_THAT(refusal("<html/>"), HasSubstr("begins with <system>"));
  EXPECT_THAT(refusal(with(complete, "numaid=\"1\"", "numaid=\"1\" host_hash=\"0x1\"")),
              HasSubstr("another host"));
}

TEST_F(NcclFile, LinksThatLeadNowhereAreSaid) {
  const Machine machine =
      from_text(with(complete, "target=\"0000:87:00.0\"", "target=\"0000:99:00.0\""), "sample");
  EXPECT_THAT(machine.unseen, Contains(HasSubstr("0000:99:00.0, which is no GPU of the file")));
  const Machine circle =
      from_text(with(complete, "target=\"0000:87:00.0\"", "target=\"0000:07:00.0\""), "sample");
  EXPECT_THAT(circle.unseen, Contains(HasSubstr("lead to itself")));
}

// Whose file it is, its root element says, not whatever else it mentions.
TEST_F(NcclFile, MayMentionThoseOfHwloc) {
  EXPECT_EQ(refusal("<!-- made from hwloc's <topology> -->\n" + std::string(complete)), "");
  EXPECT_EQ(refusal("\xef\xbb\xbf" + std::string(complete)), "");
  EXPECT_THAT(refusal("<!-- <topology> -->\n<html/>"), HasSubstr("line 2: <html>: a topology file of NCCL"));
}

TEST_F(NcclFile, HostileFilesAreRefused) {
  EXPECT_THAT(
      refusal("<!DOCTYPE a [<!ENTITY b \"boom\"><!ENTITY c \"&b;&b;&b;\">]><system version=\"&c;\"/>"),
      HasSubstr("document type"));
  std::string deep = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < 100'000; ++i) deep += "<pci busid=\"0000:00:00.0\" class=\"0x060400\">";
  EXPECT_THAT(refusal(deep), HasSubstr("deeper than 64"));
  std::string wide = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < 5'000; ++i) wide += "<pci busid=\"0000:00:00.0\" class=\"0x030200\"/>";
  EXPECT_THAT(refusal(wide + "</cpu></system>"), HasSubstr("more than 4096 devices"));
  std::string long_list = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < 100'001; ++i) long_list += "<a/>";
  EXPECT_THAT(refusal(long_list + "</cpu></system>"), HasSubstr("more than 100000 elements"));
  // Whatever has many of them would have as many copies.
  EXPECT_THAT(refusal("<system version=\"1\">\n<cpu vendor=\"" + std::string(20'000, 'v') + "\"/></system>"),
              HasSubstr("line 2: a value of more than 16384 bytes"));
}

TEST_F(NcclFile, WhatIsWrittenReadsAsTheSameMachine) {
  for (const std::string& name : builtin_names()) {
    const Machine machine = known(name), back = from_text(to_nccl_xml(machine), name);
    for (const NodeKind kind :
         {NodeKind::cpu, NodeKind::bridge, NodeKind::gpu, NodeKind::nic, NodeKind::port})
      EXPECT_EQ(back.count(kind), machine.count(kind)) << name;
    if (name == "dgx-a100")
      continue;  // the file has no packages: NUMA domains of one socket count as sockets
    const auto devices = [](const Machine& of) {
      auto all = of.all(NodeKind::gpu);
      std::ranges::copy(of.all(NodeKind::port), std::back_inserter(all));
      return all;
    };
    const auto ours = devices(machine), theirs = devices(back);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      for (std::size_t j = 0; j < ours.size(); ++j) {
        const Path here = path(machine, ours[i], ours[j]), there = path(back, theirs[i], theirs[j]);
        EXPECT_EQ(there.kind, here.kind) << name << " " << describe(machine, here);
        EXPECT_DOUBLE_EQ(there.bandwidth, here.bandwidth) << name << " " << describe(machine, here);
      }
    }
  }
}

// Addresses are invented for as many devices as there are.
TEST_F(NcclFile, WrittenOfManyDevicesThatAreOnNoBus) {
  Machine machine;
  const NodeId cpu = add_cpu(machine, Node{});
  for (int i = 0; i < 40; ++i)
    add_device(machine, cpu, {.kind = NodeKind::gpu, .details = {{"sm", "90"}}}, std::nullopt);
  add_peer_links(machine, machine.find("gpu1"), machine.find("gpu33"), LinkKind::nvlink, 4, 20);
  const Machine back = from_text(to_nccl_xml(machine), "many");
  EXPECT_EQ(back.count(NodeKind::gpu), 40U);
  EXPECT_NE(link_between(back, "gpu1", "gpu33", LinkKind::nvlink), nullptr) << to_nccl_xml(machine);
  EXPECT_THAT(back.unseen, Not(Contains(HasSubstr("the address of another"))));
}

// Those that hang on nothing, or by a link that is not PCIe's, and an adapter on no bus below a bridge.
TEST_F(NcclFile, WrittenWithAllDevices) {
  const char* machine = R"({"tutti_topology": 1, "nodes": [
    {"node": "cpu0"}, {"node": "cpu1"}, {"node": "bridge0"}, {"node": "gpu0"}, {"node": "gpu1"},
    {"node": "gpu2"}, {"node": "nic0"}, {"node": "port0", "label": "mlx5_0"}, {"node": "nic1"}], "links": [
    {"link": "pcie", "a": "cpu1", "b": "bridge0", "bandwidth_gbs": 24, "latency_us": 0.5, "count": 16},
    {"link": "pcie", "a": "bridge0", "b": "nic0", "bandwidth_gbs": 24, "latency_us": 0.5, "count": 16},
    {"link": "wire", "a": "nic0", "b": "port0", "bandwidth_gbs": 25, "latency_us": 0.35},
    {"link": "nvlink", "a": "gpu1", "b": "cpu1", "bandwidth_gbs": 60, "latency_us": 0.3, "count": 3},
    {"link": "c2c", "a": "cpu0", "b": "gpu2", "bandwidth_gbs": 450, "latency_us": 0.3},
    {"link": "c2c", "a": "cpu1", "b": "gpu2", "bandwidth_gbs": 450, "latency_us": 0.3}]})";
  const Machine back = from_text(to_nccl_xml(from_text(machine, "odd")), "back");
  EXPECT_EQ(back.count(NodeKind::gpu), 3U);
  EXPECT_EQ(back.count(NodeKind::nic), 2U);
  EXPECT_EQ(path(back, back.find("cpu1"), back.find("mlx5_0")).hops(), 3U) << "through the bridge";
  EXPECT_NE(link_between(back, "gpu0", "cpu1", LinkKind::nvlink), nullptr);
  const Link* own = link_between(back, "gpu1", "cpu0", LinkKind::c2c);
  ASSERT_NE(own, nullptr);
  EXPECT_DOUBLE_EQ(own->bandwidth, 450) << "not that to the other processor, too";
  Machine bare;
  bare.add(Node{.kind = NodeKind::gpu});
  EXPECT_THROW(to_nccl_xml(bare), Error);
}

TEST_F(NcclFile, WrittenAsWhatDevicesAreWhateverIsSaidOfThem) {
  Machine odd = known("dgx-h100");
  for (const auto& [node, pci_class] :
       {std::pair("gpu0", "0x020000"), {"nic0", "0x030200"}, {"bridge0", "0x068000"}, {"nic1", "0x0c0600"}})
    odd.node(odd.find(node)).details["class"] = pci_class;
  for (const auto& [node, number] : {std::pair("gpu1", "ninety"), {"gpu2", "-1"}, {"gpu3", "99999999999"}})
    odd.node(odd.find(node)).details["sm"] = number;
  const Machine back = from_text(to_nccl_xml(odd), "odd");
  for (const NodeKind kind :
       {NodeKind::bridge, NodeKind::gpu, NodeKind::nic, NodeKind::port, NodeKind::nvswitch})
    EXPECT_EQ(back.count(kind), odd.count(kind));
  EXPECT_EQ(detail(back.node(back.find("nic1")), "class"), "0x0c0600");
}

// Of links but those of PCIe and cables, a file of tutti's may name either end first.
TEST_F(NcclFile, WrittenWhicheverEndALinkBeginsAt) {
  const Machine machine = known("nvl72");
  Machine turned = machine;
  for (Link& link : turned.links)
    if (link.kind == LinkKind::c2c) std::swap(link.a, link.b);
  EXPECT_NO_THROW(check(turned));
  EXPECT_EQ(to_nccl_xml(turned), to_nccl_xml(machine));
}

TEST_F(NcclFile, WrittenAsNcclReadsIt) {
  const std::string text = to_nccl_xml(known("dgx-h100"));
  EXPECT_THAT(text, HasSubstr("<system version=\"1\">"));
  EXPECT_THAT(text, HasSubstr("arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\""));
  EXPECT_THAT(text, HasSubstr("link_speed=\"32.0 GT/s PCIe\" link_width=\"16\""));
  EXPECT_THAT(text, HasSubstr("<gpu dev=\"7\" sm=\"90\" rank=\"7\" gdr=\"1\">"));
  EXPECT_THAT(text, HasSubstr("count=\"18\" tclass=\"0x068000\"/>"));
  EXPECT_THAT(text, HasSubstr("<net name=\"mlx5_7\" dev=\"7\" speed=\"400000\" port=\"1\""));
  EXPECT_THAT(to_nccl_xml(from_text(testing::amd, "amd")), HasSubstr("<system version=\"2\">"));
  Machine odd = known("pcie-box");
  odd.node(odd.find("port0")).label = "<&\"\n>";
  const Machine back = from_text(to_nccl_xml(odd), "odd");
  EXPECT_EQ(back.node(back.find("port0")).label, "<&\">") << "XML has no way to write a line break in it";
  odd.node(odd.find("port0")).label = "\xc3\xa9\xff\xf0\x9f\x90\x84\xef\xbf\xbf";
  const Machine mended = from_text(to_nccl_xml(odd), "odd");
  EXPECT_EQ(mended.node(mended.find("port0")).label,
            "\xc3\xa9\xef\xbf\xbd\xf0\x9f\x90\x84\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")
      << "bytes that are no character, and a character that XML has not";
  odd.node(odd.find("cpu0")).details["numaid"] = "<&\">";
  EXPECT_EQ(detail(from_text(to_nccl_xml(odd), "odd").nodes.at(0), "numaid"), "<&\">");
  // What is no machine that anyone read is still XML.
  Machine pair = from_text(testing::amd, "pair");
  for (const char* gpu : {"gpu0", "gpu1"}) {
    pair.node(pair.find(gpu)).details["class"] = "0x1200<&\">";
    pair.node(pair.find(gpu)).pci += "<&\">";
  }
  EXPECT_THAT(refusal(to_nccl_xml(pair)), HasSubstr("is no PCI address"));
  for (const char* gpu : {"gpu0", "gpu1"}) pair.node(pair.find(gpu)).pci.resize(12);
  EXPECT_EQ(from_text(to_nccl_xml(pair), "pair").count(NodeKind::gpu), 2U);
}

}  // namespace
}  // namespace tutti::topology
