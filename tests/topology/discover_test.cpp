// What this process sees, and what made-up systems show: hidden buses, missing libraries, ports without a
// rate.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "own_folder.hpp"
#include "samples.hpp"
#include "topology/affinity.hpp"
#include "topology/assemble.hpp"
#include "topology/discover.hpp"
#include "topology/nvml.hpp"
#include "topology/paths.hpp"

namespace tutti::topology {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::known;
using ::testing::Not;

/// A file system of the test's own in the place of /sys and /proc.
class Discover : public ::testing::Test {
 protected:
  void file(const std::string& path, const std::string& contents) { own_.write(path, contents); }
  const test::OwnFolder own_;
  const std::string root_ = own_.path();
};

double rate_of(const Machine& machine, const char* port) {
  for (const Link& link : machine.links)
    if (link.kind == LinkKind::wire && link.b == machine.find(port))
      return link.assumed ? -1 : link.bandwidth;
  return 0;
}

Machine two_domains() {
  Machine machine;
  add_cpu(machine, {.details = {{"numaid", "0"}}});
  add_cpu(machine, {.details = {{"numaid", "1"}}});
  connect_cpus(machine);
  return machine;
}

TEST_F(Discover, RatesOfPorts) {
  Machine machine = two_domains();
  const NodeId nic = add_device(machine, 0, {.kind = NodeKind::nic}, pcie_link(16, 16));
  add_unknown_port(machine, nic, {.label = "mlx5_0", .rdma = true, .details = {{"port", "2"}}});
  add_unknown_port(machine, nic, {.label = "eth0"});
  add_unknown_port(machine, nic, {.label = "eth1"});
  file("/sys/class/infiniband/mlx5_0/ports/2/rate", "400 Gb/sec (4X NDR)\n");
  file("/sys/class/net/eth0/speed", "25000\n");
  file("/sys/class/net/eth1/speed", "-1\n");
  add_what_sysfs_knows(machine, root_);
  EXPECT_DOUBLE_EQ(rate_of(machine, "mlx5_0"), 50);
  EXPECT_DOUBLE_EQ(rate_of(machine, "eth0"), 3.125);
  EXPECT_DOUBLE_EQ(rate_of(machine, "eth1"), -1);
  EXPECT_THAT(machine.unseen, Contains(HasSubstr("the rate of eth1")));
  EXPECT_THAT(machine.unseen, Not(Contains(HasSubstr("eth0"))));
}

// Such a port has a rate as well, or is taken for as fast as the adapter.
TEST_F(Discover, NobodyIsGivenAPortThatIsDown) {
  Machine machine = two_domains();
  const NodeId nic = add_device(machine, 0, {.kind = NodeKind::nic}, pcie_link(16, 16));
  for (const char* name : {"mlx5_0", "mlx5_1"}) {
    add_unknown_port(machine, nic, {.label = name, .rdma = true, .details = {{"port", "1"}}});
    file("/sys/class/infiniband/" + std::string(name) + "/ports/1/rate", "10 Gb/sec (4X SDR)\n");
  }
  file("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  file("/sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n");
  for (const char* name : {"eth0", "eth1"}) add_unknown_port(machine, nic, {.label = name});
  file("/sys/class/net/eth0/operstate", "down\n");
  file("/sys/class/net/eth1/operstate", "unknown\n");
  add_what_sysfs_knows(machine, root_);
  EXPECT_NO_THROW(check(machine));
  EXPECT_DOUBLE_EQ(rate_of(machine, "mlx5_0"), 0) << "no link";
  EXPECT_DOUBLE_EQ(rate_of(machine, "mlx5_1"), 1.25);
  EXPECT_DOUBLE_EQ(rate_of(machine, "eth0"), 0) << "no link";
  EXPECT_DOUBLE_EQ(rate_of(machine, "eth1"), -1);
  EXPECT_THAT(machine.unseen, Contains("what is behind mlx5_0, which is down"));
  EXPECT_THAT(machine.unseen, Not(Contains(HasSubstr("the rate of mlx5_0"))));
  const std::vector<NodeId> cpu = {machine.find("cpu0")};
  EXPECT_EQ(ports_of(machine, cpu)[0].front(), machine.find("mlx5_1"));
}

TEST_F(Discover, InterfacesWhereAllAdaptersAreDown) {
  Machine machine = two_domains();
  const NodeId nic = add_device(machine, 0, {.kind = NodeKind::nic}, pcie_link(16, 16));
  add_unknown_port(machine, nic, {.label = "eth0"});
  file("/sys/class/net/eth0/operstate", "down\n");
  file("/sys/class/net/wlan0/operstate", "up\n");
  add_what_sysfs_knows(machine, root_);
  const std::vector<NodeId> cpu = {machine.find("cpu0")};
  EXPECT_EQ(ports_of(machine, cpu)[0], (std::vector{machine.find("wlan0")}));
}

TEST_F(Discover, DevicesThatAreOnNoBus) {
  Machine machine = two_domains();
  file("/sys/class/infiniband/rxe0/ports/1/rate", "2.5 Gb/sec (1X SDR)\n");
  file("/sys/class/infiniband/rxe0/device/numa_node", "1\n");
  file("/sys/class/net/eth0/operstate", "up\n");
  add_what_sysfs_knows(machine, root_);
  EXPECT_EQ(machine.count(NodeKind::port), 1U) << "interfaces only where nothing better is seen";
  EXPECT_TRUE(machine.node(machine.find("rxe0")).rdma);
  EXPECT_THAT(machine.unseen, Contains(HasSubstr("where rxe0 is plugged in")));
  EXPECT_EQ(path(machine, machine.find("cpu1"), machine.find("rxe0")).hops(), 2U);
}

TEST_F(Discover, InterfacesOfAContainer) {
  Machine machine = two_domains();
  file("/sys/class/net/lo/operstate", "up\n");
  file("/sys/class/net/eth0/operstate", "up\n");
  file("/sys/class/net/eth1/operstate", "down\n");
  add_what_sysfs_knows(machine, root_);
  EXPECT_EQ(machine.count(NodeKind::port), 1U);
  EXPECT_NE(machine.find("eth0"), no_node);
  EXPECT_THAT(machine.unseen, Contains(HasSubstr("no network adapter on the PCI bus")));
}

TEST_F(Discover, RatesOfGpusThatIdle) {
  Machine machine = two_domains();
  for (const char* gpu : {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0"})
    add_device(machine, 0, {.kind = NodeKind::gpu, .pci = gpu}, pcie_link(2.5, 16));
  const auto rate = [&](const char* gpu) {
    return std::ranges::find(machine.links, machine.find(gpu), &Link::b)->bandwidth;
  };
  const std::string slots = "/sys/devices/pci0000:00/0000:00:01.0", devices = "/sys/bus/pci/devices/";
  file(slots + "/max_link_speed", "16.0 GT/s PCIe\n");
  file(slots + "/0000:01:00.0/max_link_speed", "32.0 GT/s PCIe\n");
  file(slots + "/0000:01:00.0/current_link_width", "16\n");
  file(devices + "0000:02:00.0/max_link_speed", "32.0 GT/s PCIe\n");
  file(devices + "0000:02:00.0/current_link_width", "8\n");
  file(devices + "0000:03:00.0/max_link_speed", "Unknown\n");
  file(devices + "0000:03:00.0/current_link_width", "255\n");
  std::filesystem::create_directory_symlink(root_ + slots + "/0000:01:00.0",
                                            root_ + devices + "0000:01:00.0");
  const std::string virtual_slot = "/sys/devices/pci0000:00/0000:00:02.0";
  file(virtual_slot + "/max_link_speed", "2.5 GT/s PCIe\n");
  file(virtual_slot + "/0000:04:00.0/max_link_speed", "32.0 GT/s PCIe\n");
  file(virtual_slot + "/0000:04:00.0/current_link_speed", "16.0 GT/s PCIe\n");
  file(virtual_slot + "/0000:04:00.0/current_link_width", "16\n");
  std::filesystem::create_directory_symlink(root_ + virtual_slot + "/0000:04:00.0",
                                            root_ + devices + "0000:04:00.0");
  add_what_sysfs_knows(machine, root_);
  EXPECT_DOUBLE_EQ(rate("0000:01:00.0"), 24) << "no more than its slot";
  EXPECT_DOUBLE_EQ(rate("0000:02:00.0"), 24) << "of eight lanes";
  EXPECT_DOUBLE_EQ(rate("0000:03:00.0"), 3) << "not told";
  EXPECT_DOUBLE_EQ(rate("0000:04:00.0"), 24) << "no less than now";
}

TEST_F(Discover, GpuDirectNeedsTheDriver) {
  Machine machine = known("dgx-h100");
  for (const NodeId gpu : machine.all(NodeKind::gpu)) machine.node(gpu).details["vendor"] = "0x10de";
  Machine bare = machine;
  add_what_sysfs_knows(bare, root_);
  EXPECT_FALSE(bare.node(bare.find("gpu0")).rdma);
  file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.1\n");
  add_what_sysfs_knows(machine, root_);
  EXPECT_TRUE(machine.node(machine.find("gpu0")).rdma);
}

TEST(Nvml, IsAskedThroughItsLibrary) {
  std::string why_not;
  const auto gpus = read_nvml(why_not, TUTTI_FAKE_NVML);
  ASSERT_TRUE(gpus) << why_not;
  ASSERT_EQ(gpus->size(), 2U) << "the third has gone";
  const NvmlGpu& gpu = gpus->at(0);
  EXPECT_EQ(gpu.pci, "0000:10:00.0");
  EXPECT_EQ(gpu.name, "NVIDIA Nothing");
  EXPECT_EQ(gpu.compute_capability, 90);
  ASSERT_EQ(gpu.links.size(), 4U);
  EXPECT_EQ(gpu.links[0].remote, NvmlLink::Remote::gpu);
  EXPECT_EQ(gpu.links[0].pci, "0000:20:00.0");
  EXPECT_EQ(gpu.links[2].remote, NvmlLink::Remote::nvswitch);
  EXPECT_EQ(gpu.links[3].pci, "");
  EXPECT_EQ(gpu.fabric, "ab" + std::string(30, '0') + ".7");
}

TEST(Nvml, WithoutLibrary) {
  std::string why_not;
  EXPECT_FALSE(read_nvml(why_not, "libthere-is-no-such-thing.so"));
  EXPECT_THAT(why_not, HasSubstr("not installed"));
}

TEST(Nvml, GpusOfTheMachine) {
  std::string why_not;
  const auto gpus = read_nvml(why_not, TUTTI_FAKE_NVML);
  ASSERT_TRUE(gpus);
  Machine machine = two_domains();
  // In the bus's order: one that NVML does not list, and the second that it does. The first is hidden.
  add_device(machine, 0, {.kind = NodeKind::gpu, .pci = "0000:05:00.0"}, pcie_link(16, 16));
  add_device(machine, 2, {.kind = NodeKind::gpu, .pci = "0000:20:00.0"}, pcie_link(16, 16));
  add_gpus(machine, *gpus);
  EXPECT_NO_THROW(check(machine));
  ASSERT_EQ(machine.count(NodeKind::gpu), 3U);
  EXPECT_EQ(machine.node(machine.find("gpu0")).pci, "0000:10:00.0");
  EXPECT_EQ(machine.node(machine.find("gpu1")).pci, "0000:20:00.0");
  EXPECT_EQ(machine.node(machine.find("gpu2")).pci, "0000:05:00.0");
  EXPECT_EQ(machine.node(machine.find("gpu1")).details.at("sm"), "90");
  const Path pair = path(machine, machine.find("gpu0"), machine.find("gpu1"));
  EXPECT_EQ(pair.kind, PathClass::direct);
  EXPECT_DOUBLE_EQ(pair.bandwidth, 2 * 20.6);
  EXPECT_EQ(machine.count(NodeKind::nvswitch), 1U);
  EXPECT_THAT(machine.unseen, Contains(HasSubstr("where GPU 0000:10:00.0 is plugged in")));
  EXPECT_THAT(machine.unseen, Contains(HasSubstr("where 1 NVLinks of GPU 0000:20:00.0 lead")));
  EXPECT_THAT(machine.unseen, Contains(HasSubstr("GPU 0000:05:00.0 by NVML")));
}

TEST(ThisMachine, IsSeen) {
  const Machine machine = discover();
  EXPECT_NO_THROW(check(machine));
  EXPECT_GE(machine.count(NodeKind::cpu), 1U);
  EXPECT_EQ(hash(machine), hash(discover())) << "the same whenever one looks";
}

}  // namespace
}  // namespace tutti::topology
