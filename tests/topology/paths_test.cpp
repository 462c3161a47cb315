// Paths on machines that everybody knows.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "samples.hpp"
#include "topology/affinity.hpp"
#include "topology/paths.hpp"

namespace tutti::topology {
namespace {

using testing::known;

PathClass kind(const Machine& machine, const char* from, const char* to) {
  return path(machine, machine.find(from), machine.find(to)).kind;
}

TEST(Paths, ClassesOfDgxH100) {
  const Machine machine = known("dgx-h100");
  EXPECT_EQ(kind(machine, "gpu0", "gpu0"), PathClass::same);
  EXPECT_EQ(kind(machine, "gpu0", "gpu7"), PathClass::nvswitch);
  EXPECT_EQ(kind(machine, "gpu3", "nic3"), PathClass::pcie_switch);
  EXPECT_EQ(kind(machine, "gpu3", "port3"), PathClass::pcie_switch);
  EXPECT_EQ(kind(machine, "gpu3", "port2"), PathClass::host);
  EXPECT_EQ(kind(machine, "gpu3", "port4"), PathClass::sockets);
  EXPECT_EQ(kind(machine, "gpu0", "cpu0"), PathClass::host);
  EXPECT_EQ(kind(machine, "gpu0", "memory0"), PathClass::host);
  EXPECT_EQ(kind(machine, "memory0", "memory1"), PathClass::sockets);
  EXPECT_EQ(kind(machine, "cpu0", "memory0"), PathClass::host);
}

TEST(Paths, ClassesElsewhere) {
  const Machine a100 = known("dgx-a100");
  EXPECT_EQ(kind(a100, "gpu0", "port1"), PathClass::pcie_switch);
  EXPECT_EQ(kind(a100, "gpu0", "port2"), PathClass::host) << "another NUMA domain of the same socket";
  EXPECT_EQ(kind(a100, "gpu0", "port4"), PathClass::sockets);
  const Machine uneven = known("uneven-box");
  EXPECT_EQ(kind(uneven, "gpu0", "gpu1"), PathClass::direct);
  EXPECT_EQ(kind(uneven, "gpu0", "gpu2"), PathClass::host);
  EXPECT_EQ(kind(uneven, "gpu0", "gpu3"), PathClass::sockets);
  EXPECT_EQ(kind(uneven, "port0", "port1"), PathClass::same) << "of one adapter";
  const Machine rack = known("nvl72");
  EXPECT_EQ(kind(rack, "gpu0", "cpu0"), PathClass::direct) << "NVLink-C2C";
  EXPECT_EQ(kind(rack, "gpu0", "port0"), PathClass::host);
}

TEST(Paths, SeveralSwitchesAndNone) {
  Machine machine = known("pcie-box");
  const NodeId upper = machine.add(Node{.kind = NodeKind::bridge}),
               lower = machine.add(Node{.kind = NodeKind::bridge});
  const NodeId a = machine.add(Node{.kind = NodeKind::gpu}), b = machine.add(Node{.kind = NodeKind::gpu});
  for (const auto& [from, to] : {std::pair{upper, lower}, {lower, a}, {upper, b}})
    machine.add(Link{.a = from, .b = to, .bandwidth = 10, .latency = 1});
  EXPECT_EQ(path(machine, a, b).kind, PathClass::pcie_switches);
  EXPECT_EQ(path(machine, a, machine.find("gpu0")).kind, PathClass::none) << "nothing leads there";
}

TEST(Paths, RatesAddUpAlongTheWay) {
  const Machine machine = known("dgx-h100");
  const Path far = path(machine, machine.find("gpu0"), machine.find("port7"));
  EXPECT_EQ(describe(machine, far),
            "gpu0 -pcie- bridge0 -pcie- cpu0 -socket- cpu1 -pcie- bridge7 -pcie- nic7 -wire- port7");
  EXPECT_EQ(far.hops(), 6U);
  EXPECT_DOUBLE_EQ(far.bandwidth, 22) << "between the sockets";
  EXPECT_NEAR(far.latency, 4 * 0.5 + 0.3 + 0.35, 1e-9);
  const Path near = path(machine, machine.find("gpu0"), machine.find("gpu1"));
  EXPECT_DOUBLE_EQ(near.bandwidth, 18 * 20.6);
  EXPECT_TRUE(std::isinf(path(machine, 0, 0).bandwidth));
}

TEST(Paths, AreTheSameInBothDirections) {
  for (const std::string& name : builtin_names()) {
    const Machine machine = known(name);
    for (NodeId a = 0; a < static_cast<NodeId>(machine.nodes.size()); ++a) {
      const Paths paths(machine, a);
      for (NodeId b = 0; b < a; ++b) {
        const Path there = paths.to(b), back = path(machine, b, a);
        EXPECT_EQ(there.kind, back.kind) << name << " " << describe(machine, there);
        EXPECT_EQ(there.hops(), back.hops());
        EXPECT_DOUBLE_EQ(there.bandwidth, back.bandwidth);
      }
    }
  }
}

TEST(Paths, OfEqualsHaveTheLowerLinks) {
  Machine machine;
  const auto cpu = [&] { return machine.add(Node{.kind = NodeKind::cpu}); };
  const NodeId from = cpu(), left = cpu(), right = cpu(), to = cpu();
  const auto link = [&](NodeId a, NodeId b) {
    return machine.add(Link{.a = a, .b = b, .kind = LinkKind::socket, .bandwidth = 10, .latency = 1});
  };
  // The second links are the other way round: the first ones decide.
  const LinkId right_to = link(right, to), left_to = link(left, to);
  const LinkId from_left = link(from, left), from_right = link(from, right);
  EXPECT_EQ(path(machine, from, to).links, (std::vector{from_left, left_to}));
  EXPECT_EQ(path(machine, to, from).links, (std::vector{right_to, from_right}));
}

// Whole paths at every step would take the third power of their number.
TEST(Paths, AlongAChainOfThousands) {
  constexpr NodeId last = 1999;
  Machine machine;
  for (NodeId id = 0; id <= last; ++id) {
    machine.add(Node{.kind = NodeKind::cpu, .package = id});
    if (id > 0)
      machine.add(Link{.a = id - 1, .b = id, .kind = LinkKind::socket, .bandwidth = 10, .latency = 1});
  }
  for (NodeId from = 0; from <= last; ++from) {
    const Paths paths(machine, from);
    ASSERT_EQ(paths[last].hops, last - from);
    ASSERT_EQ(paths[0].hops, from);
  }
  const Path longest = path(machine, 0, last);
  std::vector<NodeId> nodes(last + 1);
  std::iota(nodes.begin(), nodes.end(), 0);
  EXPECT_EQ(longest.nodes, nodes);
  nodes.pop_back();  // each link has the number of its first end
  EXPECT_EQ(longest.links, nodes);
}

std::vector<std::string> first_ports(const Machine& machine) {
  std::vector<std::string> names;
  for (const auto& ports : ports_of(machine, machine.all(NodeKind::gpu)))
    names.push_back(ports.empty() ? "none" : topology::name(machine.node(ports.front())));
  return names;
}

TEST(Affinity, EachGpuHasItsPort) {
  for (const char* name : {"dgx-h100", "dgx-a100", "nvl72"}) {
    const Machine machine = known(name);
    const auto ports = first_ports(machine);
    for (std::size_t i = 0; i < ports.size(); ++i) EXPECT_EQ(ports[i], "port" + std::to_string(i)) << name;
  }
}

TEST(Affinity, PortsAreSharedMissingOrUneven) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(first_ports(known("pcie-box")), (Names{"port0", "port0", "port0", "port0"}));
  EXPECT_EQ(first_ports(known("uneven-box")), (Names{"port0", "port1", "port0", "port2"}));
  Machine machine = known("pcie-box");
  std::erase_if(machine.links, [](const Link& link) { return link.kind == LinkKind::wire; });
  EXPECT_EQ(first_ports(machine), (Names{"none", "none", "none", "none"}));
}

TEST(Affinity, PortsThatNobodyHasGoToTheNearest) {
  const Machine machine = known("dgx-h100");
  const std::vector<NodeId> some = {machine.find("gpu0"), machine.find("gpu1")};
  const auto ports = ports_of(machine, some);
  EXPECT_EQ(ports[0], (std::vector{machine.find("port0")})) << "the others are farther than its own";
  Machine wide = known("uneven-box");
  const std::vector<NodeId> one = {wide.find("gpu0")};
  EXPECT_EQ(ports_of(wide, one)[0], (std::vector{wide.find("port0"), wide.find("port1")}));
}

TEST(Affinity, RdmaBeforeNearness) {
  Machine machine = known("uneven-box");
  for (const char* port : {"port0", "port1"}) machine.node(machine.find(port)).rdma = false;
  const std::vector<NodeId> one = {machine.find("gpu0")};
  EXPECT_EQ(ports_of(machine, one)[0].front(), machine.find("port2"));
}

}  // namespace
}  // namespace tutti::topology
