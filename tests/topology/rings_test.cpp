// Rings: every GPU once, no slow link twice.
#include <gtest/gtest.h>

#include <algorithm>

#include "samples.hpp"
#include "topology/assemble.hpp"
#include "topology/rings.hpp"

namespace tutti::topology {
namespace {

using testing::known;

/// GPUs that are all linked with each other, `count` links a pair.
Machine mesh(int gpus, int count) {
  Machine machine;
  const NodeId cpu = add_cpu(machine, Node{});
  for (int i = 0; i < gpus; ++i) add_device(machine, cpu, {.kind = NodeKind::gpu}, pcie_link(16, 16));
  const auto all = machine.all(NodeKind::gpu);
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = i + 1; j < all.size(); ++j)
      add_peer_links(machine, all[i], all[j], LinkKind::xgmi, count, 48);
  return machine;
}

/// GB/s of the slowest link that a ring over all GPUs cannot avoid.
double slowest(const Machine& machine) {
  double least = 1e9;
  for (const Link& link : machine.links)
    if (link.kind == LinkKind::pcie || link.kind == LinkKind::socket)
      if (machine.node(link.b).kind != NodeKind::nic) least = std::min(least, link.bandwidth);
  return least;
}

void expect_every_gpu_once(const Machine& machine, const std::vector<Ring>& all) {
  for (Ring ring : all) {
    std::ranges::sort(ring);
    auto gpus = machine.all(NodeKind::gpu);
    std::ranges::sort(gpus);
    EXPECT_EQ(ring, gpus) << machine.name;
  }
}

TEST(Rings, HoldEveryGpuOnce) {
  for (const std::string& name : builtin_names()) {
    const Machine machine = known(name);
    const auto all = rings(machine);
    EXPECT_FALSE(all.empty()) << name;
    expect_every_gpu_once(machine, all);
    EXPECT_GT(ring_bandwidth(machine, all), 0) << name;
  }
}

TEST(Rings, OneForEachPortBelowSwitches) {
  const Machine machine = known("dgx-h100");
  const auto all = rings(machine);
  ASSERT_EQ(all.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(name(machine.node(all[i].front())), "gpu" + std::to_string(i));
  EXPECT_DOUBLE_EQ(8 * ring_bandwidth(machine, all), 370.8) << "together all NVLinks of a GPU";
}

TEST(Rings, UseDirectLinksOnceEach) {
  const Machine machine = mesh(8, 1);
  const auto all = rings(machine);
  EXPECT_EQ(all.size(), 6U) << "of seven links a GPU three pairs make rings, in both directions";
  expect_every_gpu_once(machine, all);
  EXPECT_DOUBLE_EQ(ring_bandwidth(machine, all), 48) << "each of them has its links to itself";
  EXPECT_EQ(rings(mesh(4, 3)).size(), 2U) << "links that come together are used together";
  EXPECT_DOUBLE_EQ(ring_bandwidth(mesh(4, 3), rings(mesh(4, 3))), 3 * 48);
  EXPECT_EQ(rings(mesh(2, 12)).size(), 1U);
  EXPECT_EQ(rings(mesh(5, 1)).size(), 4U);
}

TEST(Rings, FollowTheTreeWithoutCrossingALinkTwice) {
  // In the machine's own order the slowest link would be crossed twice.
  Machine swapped = known("pcie-box");
  std::swap(swapped.node(swapped.find("gpu1")).index, swapped.node(swapped.find("gpu2")).index);
  for (const Machine& machine : {known("pcie-box"), known("uneven-box"), swapped}) {
    const auto all = rings(machine);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_DOUBLE_EQ(ring_bandwidth(machine, all), slowest(machine)) << machine.name;
  }
}

// A search that descends with every ring comes to an end before the stack does.
TEST(Rings, OfAnyNumberOfLinks) {
  Machine machine = mesh(32, 1023);
  for (Link& link : machine.links)
    if (link.kind == LinkKind::xgmi && (link.a + link.b) % 2 == 0) link.count = 1024;
  const auto all = rings(machine);
  EXPECT_FALSE(all.empty());
  expect_every_gpu_once(machine, all);
}

TEST(Rings, NoneForOneGpu) {
  EXPECT_TRUE(rings(mesh(1, 1)).empty());
  EXPECT_TRUE(rings(Machine{}).empty());
}

}  // namespace
}  // namespace tutti::topology
