// By what means two ranks talk, and every better one's refusal.
#include <gmock/gmock.h>

#include "samples.hpp"
#include "topology/choice.hpp"

namespace tutti::topology {
namespace {

using ::testing::HasSubstr;
using testing::known;

/// The reasons, one for each means before the chosen one.
std::string reason(const Choice& choice, Means means) {
  for (const Refusal& refusal : choice.refused)
    if (refusal.means == means) return refusal.why;
  return "";
}

TEST(Choice, WithinAMachine) {
  const World h100 = uniform_world(known("dgx-h100"), 1);
  const Choice near = choose(h100, 0, 5);
  EXPECT_EQ(near.means, Means::nvlink);
  EXPECT_DOUBLE_EQ(near.route.bandwidth, 370.8);
  EXPECT_THAT(reason(near, Means::same_gpu), HasSubstr("different GPUs, gpu0 and gpu5"));

  const World box = uniform_world(known("pcie-box"), 1);
  const Choice apart = choose(box, 0, 1);
  EXPECT_EQ(apart.means, Means::shared_memory);
  EXPECT_THAT(reason(apart, Means::pcie_peer), HasSubstr("apart by \"host\""));
  EXPECT_EQ(choose(box, 0, 1, {.farthest_peer = PathClass::host}).means, Means::pcie_peer);
  EXPECT_EQ(choose(box, 0, 1, {.shared_memory = false}).means, Means::rdma) << "through the adapter of both";

  const World shared = uniform_world(known("pcie-box"), 1, 8);
  EXPECT_EQ(choose(shared, 0, 1).means, Means::same_gpu);
  EXPECT_EQ(choose(uniform_world(known("uneven-box"), 1), 0, 1).means, Means::nvlink);
}

TEST(Choice, BetweenMachines) {
  const World h100 = uniform_world(known("dgx-h100"), 2);
  const Choice far = choose(h100, 1, 9);
  EXPECT_EQ(far.means, Means::gpudirect);
  EXPECT_EQ(far.route.kind, PathClass::network);
  EXPECT_DOUBLE_EQ(far.route.bandwidth, 48);
  EXPECT_NEAR(far.route.latency, 2.7, 1e-9) << "NCCL's constant of a network hop";
  ASSERT_EQ(far.refused.size(), 4U);
  EXPECT_THAT(reason(far, Means::nvlink), HasSubstr("no NVLink domain holds both hosts"));
  EXPECT_THAT(reason(far, Means::shared_memory), HasSubstr("different hosts"));

  const World boxes = uniform_world(known("pcie-box"), 2);
  EXPECT_EQ(choose(boxes, 0, 4).means, Means::rdma);
  EXPECT_THAT(reason(choose(boxes, 0, 4), Means::gpudirect),
              HasSubstr("gpu0 of rank 0 and port0 are apart by \"host\""));

  const World rack = uniform_world(known("nvl72"), 36);
  EXPECT_EQ(choose(rack, 0, 71).means, Means::nvlink);
  EXPECT_EQ(choose(rack, 0, 71).route.kind, PathClass::nvswitch);
  EXPECT_EQ(choose(rack, 0, 72).means, Means::gpudirect) << "over C2C and the processor's root";
}

TEST(Choice, WithoutRdmaOrNetwork) {
  Machine machine = known("dgx-h100");
  machine.node(machine.find("gpu0")).rdma = false;
  machine.node(machine.find("port1")).rdma = false;
  World world = uniform_world(machine, 2);
  const Choice staged = choose(world, 0, 8);
  EXPECT_EQ(staged.means, Means::rdma);
  EXPECT_THAT(reason(staged, Means::gpudirect), HasSubstr("cannot reach the memory of gpu0 of rank 0"));
  for (Seat& seat : world.seats) seat.port = machine.find("port1");
  const Choice plain = choose(world, 1, 9);
  EXPECT_EQ(plain.means, Means::tcp);
  EXPECT_THAT(reason(plain, Means::rdma), HasSubstr("port1 of rank 1 does not speak RDMA"));
  for (Seat& seat : world.seats) seat.port = no_node;
  const Choice none = choose(world, 1, 9);
  EXPECT_EQ(none.means, Means::none);
  EXPECT_THAT(reason(none, Means::tcp), HasSubstr("rank 1 has no network port"));
  EXPECT_EQ(none.refused.size(), 7U);
}

TEST(Choice, WhereNoWayLeads) {
  Machine machine;
  machine.add(Node{.kind = NodeKind::cpu});
  for (int gpu = 0; gpu < 2; ++gpu) machine.add(Node{.kind = NodeKind::gpu});
  machine.add(Link{.a = machine.find("cpu0"), .b = machine.find("gpu0"), .bandwidth = 24, .latency = 0.5});
  const World apart = uniform_world(machine, 1);
  for (const Memory memory : {Memory::gpu, Memory::cpu}) {
    const Choice none = choose(apart, 0, 1, {.memory = memory});
    EXPECT_EQ(none.means, Means::none);
    EXPECT_EQ(reason(none, Means::shared_memory), "no way leads from gpu0 to gpu1");
    EXPECT_EQ(reason(none, Means::tcp), "no way leads from gpu0 to gpu1");
  }
  // Memory of the processor itself is not in the picture.
  Machine bare;
  bare.add(Node{.kind = NodeKind::cpu});
  EXPECT_EQ(choose(uniform_world(bare, 1, 2), 0, 1).means, Means::shared_memory);
}

TEST(Choice, BuffersOfProcessors) {
  const World world = uniform_world(known("dgx-h100"), 2);
  const Rules cpu{.memory = Memory::cpu};
  const Choice near = choose(world, 0, 1, cpu), far = choose(world, 0, 8, cpu);
  EXPECT_EQ(near.means, Means::shared_memory);
  EXPECT_THAT(reason(near, Means::nvlink), HasSubstr("in the processors' memory"));
  EXPECT_EQ(far.means, Means::rdma);
  const Choice side_by_side = choose(uniform_world(known("pcie-box"), 1, 8), 0, 1, cpu);
  EXPECT_EQ(side_by_side.means, Means::shared_memory);
  EXPECT_DOUBLE_EQ(side_by_side.route.bandwidth, 24) << "from the device to memory and back";
}

TEST(Choice, IsToldInWords) {
  const World world = uniform_world(known("dgx-h100"), 2);
  EXPECT_EQ(describe(world, 0, 8, choose(world, 0, 8)),
            "rank 0 (gpu0 of host 0) -> rank 8 (gpu0 of host 1): gpudirect rdma, 48 GB/s, 2.7 us\n"
            "  not same gpu: the ranks are on different hosts\n"
            "  not nvlink: no NVLink domain holds both hosts\n"
            "  not pcie peer: the ranks are on different hosts\n"
            "  not shared memory: the ranks are on different hosts\n");
  EXPECT_THROW(choose(world, 0, 0), Error);
  EXPECT_THROW(choose(world, 0, 16), Error);
}

}  // namespace
}  // namespace tutti::topology
