// RDMA devices, GPUs and PCIe bridges that are not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/gpu.hpp"
#include "doctor/pcie.hpp"
#include "doctor/rdma.hpp"
#include "fake_root.hpp"

namespace tutti::doctor {
namespace {

using testing::FakeRoot;
using ::testing::HasSubstr;

RdmaPort port(const std::string& layer) {
  return {.device = "mlx5_0", .layer = layer, .active = true, .gigabits = 100, .mtu = 4096, .lid = 1};
}
RdmaFacts with(const RdmaPort& port) {
  return {.built = true, .kernel = {"mlx5_0"}, .ports = {port}, .choice = "mlx5_0 port 1"};
}

TEST(DoctorRdma, WithoutDeviceOrLibrary) {
  EXPECT_EQ(worst(examine(RdmaFacts{.built = true})), Level::note);
  const Findings refused =
      examine(RdmaFacts{.built = true, .why_none = "rx0 does not exist", .refused = true});
  EXPECT_THAT(refused.front().what, Not(HasSubstr("TCP")));
  EXPECT_EQ(refused.back().level, Level::error);
  EXPECT_THAT(refused.back().what, HasSubstr("rx0 does not exist"));
  const Findings unbuilt = examine(RdmaFacts{.kernel = {"mlx5_0"}});
  EXPECT_EQ(unbuilt.front().level, Level::warning);
  EXPECT_THAT(unbuilt.front().remedy, HasSubstr("libibverbs-dev"));
}

TEST(DoctorRdma, DevicesThatCannotBeOpened) {
  RdmaFacts facts{.built = true, .kernel = {"mlx5_0"}};
  EXPECT_THAT(examine(facts).at(0).remedy, HasSubstr("ib_uverbs"));
  facts.nodes = {"/dev/infiniband/uverbs0"};
  EXPECT_THAT(examine(facts).at(0).remedy, HasSubstr("ibverbs-providers"));
  facts.closed = facts.nodes;
  EXPECT_THAT(examine(facts).at(0).remedy, HasSubstr("/dev/infiniband/uverbs0"));
}

TEST(DoctorRdma, SomeDevicesThatCannotBeOpened) {
  RdmaFacts facts = with(port("InfiniBand"));
  facts.kernel = {"mlx5_0", "mlx5_1", "mlx5_2"};
  facts.nodes = {"/dev/infiniband/uverbs0"};
  const Finding away = examine(facts).at(1);
  EXPECT_EQ(away.level, Level::note);
  EXPECT_THAT(away.what, HasSubstr("3 RDMA devices, 2 of which cannot be opened: mlx5_1, mlx5_2"));
  EXPECT_THAT(away.remedy, HasSubstr("--device"));
  EXPECT_THAT(examine(facts).back().what, HasSubstr("tutti uses mlx5_0 port 1"));
  facts.nodes = {"/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1", "/dev/infiniband/uverbs2"};
  EXPECT_THAT(examine(facts).at(1).remedy, HasSubstr("ibverbs-providers"));
  facts.closed = {facts.nodes[1], facts.nodes[2]};
  EXPECT_THAT(examine(facts).at(1).remedy, HasSubstr("/dev/infiniband/uverbs1 and /dev/infiniband/uverbs2"));
}

TEST(DoctorRdma, PortsOfInfiniBand) {
  RdmaPort one = port("InfiniBand");
  EXPECT_EQ(worst(examine(with(one))), Level::ok);
  EXPECT_THAT(examine(with(one)).back().what, HasSubstr("tutti uses mlx5_0 port 1"));
  one.lid = 0;
  EXPECT_THAT(examine(with(one)).at(0).remedy, HasSubstr("opensm"));
  one.active = false;
  EXPECT_THAT(examine(with(one)).at(0).what, HasSubstr("down"));
  EXPECT_THAT(examine(with(one)).at(0).remedy, HasSubstr("cable"));
  EXPECT_EQ(examine(with(one)).at(0).level, Level::note);
  one.initializing = true;  // with a cable, and whatever LID
  one.lid = 65535;
  EXPECT_THAT(examine(with(one)).at(0).what, HasSubstr("initializing"));
  EXPECT_THAT(examine(with(one)).at(0).remedy, HasSubstr("opensm"));
}

TEST(DoctorRdma, AddressesAndMtuOfRoce) {
  RdmaPort one = port("RoCE");
  one.gids = {{.index = 0, .address = "fe80::1", .type = "RoCE v2", .link_local = true}};
  EXPECT_EQ(examine(with(one)).at(0).level, Level::warning);
  one.gids.push_back({.index = 1, .address = "10.0.0.1", .type = "RoCE v2"});
  EXPECT_EQ(examine(with(one)).at(0).level, Level::ok);
  EXPECT_THAT(examine(with(one)).at(0).what, HasSubstr("GID 1 10.0.0.1 RoCE v2"));
  one.mtu = 1024;
  EXPECT_THAT(examine(with(one)).at(0).remedy, HasSubstr("mtu 9000"));
}

TEST(DoctorRdma, PortsOfIwarpNeedAConnectionManager) {
  RdmaFacts facts = with(port("iWARP"));
  EXPECT_EQ(worst(examine(facts)), Level::ok);
  facts.why_no_iwarp = "rdma_cm cannot be used";
  EXPECT_EQ(examine(facts).at(0).level, Level::note);
  EXPECT_THAT(examine(facts).at(0).what, HasSubstr("iWARP is not used: rdma_cm cannot be used"));
}

TEST(DoctorRdma, NoUsablePort) {
  RdmaFacts facts = with(port("iWARP"));
  facts.choice.clear();
  facts.why_none = "no active port";
  EXPECT_EQ(worst(examine(facts)), Level::warning);
  EXPECT_THAT(examine(facts).back().what, HasSubstr("no active port"));
  EXPECT_THAT(examine(facts).back().remedy, HasSubstr("TCP"));
  facts.refused = true;
  EXPECT_EQ(worst(examine(facts)), Level::error);
  EXPECT_THAT(examine(facts).back().remedy, Not(HasSubstr("TCP")));
}

constexpr const char* open_driver =
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.1  Release Build\nGCC version: 12\n";

FakeRoot& with_gpu(FakeRoot& fake) {
  return fake.file("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
      .file("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
}

TEST(DoctorGpu, NoneAndNoDriver) {
  FakeRoot fake;
  EXPECT_THAT(examine(read_gpu(fake.root())).at(0).what, HasSubstr("no GPU"));
  const Finding bare = examine(read_gpu(with_gpu(fake).root())).at(0);
  EXPECT_EQ(bare.level, Level::warning);
  EXPECT_THAT(bare.remedy, HasSubstr("install the driver"));
  fake.file("/proc/driver/nvidia/version", open_driver);
  EXPECT_THAT(examine(read_gpu(fake.root())).at(0).remedy, HasSubstr("--gpus all"));
}

TEST(DoctorGpu, PeerMemory) {
  FakeRoot fake;
  with_gpu(fake)
      .file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.1\n")
      .file("/proc/sys/kernel/osrelease", "6.1.0-1-amd64\n")
      .file("/dev/nvidia0", "")
      .file("/dev/nvidiactl", "");
  EXPECT_EQ(examine(read_gpu(fake.root())).at(1).level, Level::note);  // no RDMA
  fake.file("/sys/class/infiniband/mlx5_0/node_type", "1");
  const GpuFacts facts = read_gpu(fake.root());
  EXPECT_EQ(facts.nodes, 1);
  EXPECT_EQ(examine(facts).at(0).level, Level::ok);
  EXPECT_EQ(examine(facts).at(1).level, Level::warning);
  EXPECT_THAT(examine(facts).at(1).remedy, HasSubstr("modprobe nvidia-peermem"));
  fake.file("/proc/driver/nvidia/version", open_driver);
  EXPECT_THAT(examine(read_gpu(fake.root())).at(1).what, HasSubstr("dma-buf"));
  fake.file("/sys/module/nvidia_peermem/version", "1");
  EXPECT_THAT(examine(read_gpu(fake.root())).at(1).what, HasSubstr("dma-buf and nvidia_peermem"));
  fake.file("/proc/sys/kernel/osrelease", "5.4.0\n");
  EXPECT_FALSE(read_gpu(fake.root()).dma_buf);
}

TEST(DoctorGpu, OnABusThatIsHidden) {
  const GpuFacts facts{.driver = "570.1", .nodes = 8};
  EXPECT_THAT(examine(facts).at(0).what, HasSubstr("8 of 8 NVIDIA GPUs visible; 570.1"));
}

// Their PCI class is that of display controllers, or of accelerators (MI300).
TEST(DoctorGpu, OfAmd) {
  FakeRoot fake;
  for (const char* device : {"0000:01:00.0", "0000:02:00.0"})
    fake.file(std::string("/sys/bus/pci/devices/") + device + "/vendor", "0x1002\n");
  fake.file("/sys/bus/pci/devices/0000:01:00.0/class", "0x038000\n")
      .file("/sys/bus/pci/devices/0000:02:00.0/class", "0x120000\n");
  const Finding finding = examine(read_gpu(fake.root())).at(0);
  EXPECT_THAT(finding.what, HasSubstr("2 AMD GPUs without /dev/kfd"));
  EXPECT_TRUE(read_pcie(fake.root()).gpu);
}

/// A configuration space with an advanced error capability at 0x100 and ACS at 0x148.
std::string configuration(std::uint8_t control) {
  std::string space(4096, '\0');
  const auto put = [&](std::size_t at, std::initializer_list<int> bytes) {
    for (const int byte : bytes) space[at++] = static_cast<char>(byte);
  };
  put(0x100, {0x01, 0x00, 0x82, 0x14});
  put(0x148, {0x0d, 0x00, 0x01, 0x00, 0x5f, 0x00, control, 0x00});
  return space;
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

TEST(DoctorPcie, FindsTheCapability) {
  EXPECT_EQ(find_acs(bytes_of(configuration(0x1d))), 0x1d);
  EXPECT_EQ(find_acs(bytes_of(configuration(0x1d).substr(0, 64))), std::nullopt);
  EXPECT_EQ(find_acs(bytes_of(std::string(4096, '\0'))), std::nullopt);
  EXPECT_EQ(find_acs(bytes_of(std::string(4096, '\xff'))), std::nullopt);
  std::string circle(4096, '\0');
  circle.replace(0x100, 4, std::string("\x01\x00\x01\x10", 4));
  EXPECT_EQ(find_acs(bytes_of(circle)), std::nullopt);
}

TEST(DoctorPcie, RedirectsMatterToGpus) {
  FakeRoot fake;
  fake.file("/sys/bus/pci/devices/0000:00:01.0/class", "0x060400\n")
      .file("/sys/bus/pci/devices/0000:00:01.0/config", configuration(0x1d))
      .file("/sys/bus/pci/devices/0000:00:02.0/class", "0x060400\n")
      .file("/sys/bus/pci/devices/0000:00:02.0/config", configuration(0x00));
  EXPECT_EQ(worst(examine(read_pcie(fake.root()))), Level::note);
  const Finding finding = examine(read_pcie(with_gpu(fake).root())).at(0);
  EXPECT_EQ(finding.level, Level::warning);
  EXPECT_THAT(finding.what, HasSubstr("1 of 2 bridges (0000:00:01.0)"));
  EXPECT_THAT(finding.remedy, HasSubstr("setpci -s 0000:00:01.0 ECAP_ACS+0x6.w=0000"));
}

TEST(DoctorPcie, SaysWhatOnlyRootSees) {
  const Findings findings = examine(PcieFacts{.bridges = {{.address = "a", .readable = false}}, .gpu = true});
  EXPECT_EQ(findings.at(0).level, Level::note);
  EXPECT_THAT(findings.at(0).remedy, HasSubstr("sudo"));
}

}  // namespace
}  // namespace tutti::doctor
