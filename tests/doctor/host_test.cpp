// Memory, shared memory, processors and network: what is said about given facts, and facts from given files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "bootstrap/own_network.hpp"
#include "bootstrap/ranks.hpp"
#include "doctor/memory.hpp"
#include "doctor/network.hpp"
#include "doctor/processors.hpp"
#include "doctor/shared_memory.hpp"
#include "fake_root.hpp"

namespace tutti::doctor {
namespace {

using bootstrap::test::enter_bare_network;
using bootstrap::test::enter_own_network;
using bootstrap::test::run_ip;
using testing::FakeRoot;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t MiB = 1 << 20, GiB = std::uint64_t{1} << 30;

TEST(DoctorMemory, ReadsTheKernelsFiles) {
  FakeRoot fake;
  fake.file("/proc/meminfo", "MemTotal:       1048576 kB\nMemAvailable:     524288 kB\n")
      .file("/proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n")
      .file("/proc/self/cgroup", "0::/job/step\n")
      .file("/sys/fs/cgroup/job/memory.max", "268435456\n")
      .file("/sys/fs/cgroup/job/step/memory.max", "max\n")
      .file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "10\n")
      .file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "7\n")
      .file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const MemoryFacts facts = read_memory(fake.root());
  EXPECT_EQ(facts.total, GiB);
  EXPECT_EQ(facts.available, 512 * MiB);
  EXPECT_EQ(facts.group_limit, 256 * MiB);
  EXPECT_TRUE(facts.may_lock_all);
  EXPECT_FALSE(facts.rdma);
  ASSERT_EQ(facts.huge_pages.size(), 1U);
  EXPECT_EQ(facts.huge_pages[0].page_bytes, 2 * MiB);
  EXPECT_EQ(facts.huge_pages[0].free, 7U);
  EXPECT_EQ(facts.transparent, "madvise");
}

TEST(DoctorMemory, TheLimitOfControlGroupsVersion1) {
  FakeRoot fake;
  fake.file("/proc/self/cgroup", "4:memory:/a\n0::/\n")
      .file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
      .file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(read_memory(fake.root()).group_limit, GiB);
}

Finding memlock(std::optional<std::uint64_t> limit, bool rdma, bool may_lock_all = false) {
  return examine(MemoryFacts{.memlock = limit, .may_lock_all = may_lock_all, .rdma = rdma}).at(1);
}

TEST(DoctorMemory, LockedMemoryMattersWithRdma) {
  EXPECT_EQ(memlock(std::nullopt, true).level, Level::ok);
  EXPECT_EQ(memlock(8 * MiB, false).level, Level::note);
  EXPECT_EQ(memlock(8 * MiB, true).level, Level::warning);
  EXPECT_EQ(memlock(64 << 10, true).level, Level::error);
  EXPECT_EQ(memlock(64 << 10, true, true).level, Level::ok);
  EXPECT_EQ(memlock(16 * GiB, true).level, Level::ok);
  EXPECT_THAT(memlock(8 * MiB, true).remedy, HasSubstr("memlock unlimited"));
  EXPECT_THAT(memlock(8 * MiB, true).what, HasSubstr("8 MiB"));
}

TEST(DoctorSharedMemory, TriesItHere) {
  const SharedMemoryFacts facts = read_shared_memory(Root());
  EXPECT_EQ(facts.memfd, 0);
  EXPECT_EQ(facts.unix_socket, 0);
}

TEST(DoctorSharedMemory, SaysWhoRefusesAttach) {
  const auto attach = [](SharedMemoryFacts facts) { return examine(facts).at(1); };
  EXPECT_EQ(attach({}).level, Level::ok);
  const Finding yama = attach({.attach = EPERM, .ptrace_scope = 1});
  EXPECT_EQ(yama.level, Level::warning);
  EXPECT_THAT(yama.what, HasSubstr("Operation not permitted"));
  EXPECT_THAT(yama.remedy, HasSubstr("kernel.yama.ptrace_scope=0"));
  EXPECT_THAT(attach({.attach = EPERM, .ptrace_scope = 3}).remedy, HasSubstr("boot"));
  EXPECT_THAT(attach({.attach = EPERM, .seccomp = 2}).remedy, HasSubstr("SYS_PTRACE"));
  EXPECT_THAT(attach({.attach = EPERM}).remedy, HasSubstr("one user"));
}

// As whoever started this may have left it.
TEST(DoctorSharedMemory, SeesThatAttachIsRefusedWhereTheEndsOfChildrenAreIgnored) {
  bootstrap::test::Child child([] {
    std::signal(SIGCHLD, SIG_IGN);
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 77;
    if (::prctl(PR_SET_DUMPABLE, 0) != 0) return 77;
    return read_shared_memory(Root()).attach == EPERM ? 0 : 1;
  });
  const int code = child.wait();
  if (code == 77) GTEST_SKIP() << "this process cannot hide its memory here";
  EXPECT_EQ(code, 0);
}

TEST(DoctorSharedMemory, IsNeeded) {
  const Finding none = examine(SharedMemoryFacts{.memfd = ENOSYS}).at(0);
  EXPECT_EQ(none.level, Level::error);
  EXPECT_THAT(none.remedy, HasSubstr("seccomp"));
  EXPECT_EQ(examine(SharedMemoryFacts{.unix_socket = EMFILE}).at(0).level, Level::error);
}

TEST(DoctorProcessors, ReadsTheKernelsFiles) {
  FakeRoot fake;
  fake.file("/proc/self/cgroup", "0::/\n")
      .file("/sys/fs/cgroup/cpu.max", "150000 100000\n")
      .file("/proc/loadavg", "12.50 3.00 1.00 1/2 3\n")
      .file("/sys/devices/system/node/node0/cpulist", "0-3\n")
      .file("/sys/devices/system/node/node1/cpulist", "4-7\n");
  const ProcessorFacts facts = read_processors(fake.root(), {.count = 2, .processors = 4});
  EXPECT_EQ(facts.quota, 1.5);
  EXPECT_EQ(facts.load, 12.5);
  EXPECT_THAT(facts.nodes, ::testing::ElementsAre("0-3", "4-7"));
  fake.file("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(read_processors(fake.root(), {}).quota, std::nullopt);
}

TEST(DoctorProcessors, TakesTheSmallestQuotaUpToTheRoot) {
  FakeRoot fake;
  fake.file("/proc/self/cgroup", "0::/job/step\n")
      .file("/sys/fs/cgroup/job/cpu.max", "200000 100000\n")
      .file("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(read_processors(fake.root(), {}).quota, 2);
  fake.file("/sys/fs/cgroup/job/step/cpu.max", "50000 100000\n");
  EXPECT_EQ(read_processors(fake.root(), {}).quota, 0.5);
  FakeRoot older;
  older.file("/proc/self/cgroup", "7:memory:/m\n4:cpu,cpuacct:/a/b\n0::/\n")
      .file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
      .file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
      .file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000\n")
      .file("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n")
      .file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n")
      .file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read_processors(older.root(), {}).quota, 3);
}

TEST(DoctorProcessors, CountsThemAgainstRanks) {
  const auto all = [](ProcessorFacts facts) { return examine(facts); };
  EXPECT_EQ(worst(all({.ranks = {4, 8}, .online = 8})), Level::ok);
  const Finding crowded = all({.ranks = {4, 1}, .online = 8}).at(0);
  EXPECT_EQ(crowded.level, Level::warning);
  EXPECT_THAT(crowded.remedy, HasSubstr("--bind-to"));
  EXPECT_EQ(worst(all({.ranks = {2, 8}, .online = 8, .quota = 1.5})), Level::warning);
  EXPECT_EQ(worst(all({.ranks = {2, 8}, .online = 8, .load = 20})), Level::warning);
  EXPECT_EQ(worst(all({.ranks = {2, 8}, .online = 8, .nodes = {"0-3", "4-7"}})), Level::note);
}

Nic nic(const std::string& name, const std::string& address, std::optional<long long> megabits,
        int mtu = 1500) {
  return {.interface = {.name = name, .addresses = {address}, .up = true},
          .mtu = mtu,
          .megabits = megabits,
          .hardware = true};
}

TEST(DoctorNetwork, PrefersTheFasterInterface) {
  const NetworkFacts facts{.nics = {nic("eth0", "10.0.0.1", 1000), nic("eth1", "10.1.0.1", 100000, 9000)},
                           .default_route = "10.0.0.1"};
  const Finding choice = examine(facts).back();
  EXPECT_EQ(choice.level, Level::warning);
  EXPECT_THAT(choice.remedy, HasSubstr("TUTTI_INTERFACE=eth1"));
  NetworkFacts wish = facts;
  wish.wanted = "eth1";
  EXPECT_EQ(worst(examine(wish)), Level::ok);
  wish.wanted = "eth7";
  EXPECT_EQ(worst(examine(wish)), Level::error);
}

TEST(DoctorNetwork, RecommendsOnlyWhatRanksCanUse) {
  NetworkFacts facts{.nics = {nic("eth0", "10.0.0.1", 1000), nic("eth1", "fe80::1%eth1", 100000, 9000),
                              nic("veth0", "10.2.0.1", 10000, 9000)},
                     .default_route = "10.0.0.1"};
  facts.nics[2].hardware = false;
  EXPECT_EQ(worst(examine(facts)), Level::ok);
  for (const char* wanted : {"eth1", "fe80::1%eth1"}) {
    facts.wanted = wanted;
    const Finding choice = examine(facts).back();
    EXPECT_EQ(choice.level, Level::error) << wanted;
    EXPECT_THAT(choice.what, HasSubstr("is link-local"));
  }
  facts.wanted = "veth0";
  EXPECT_EQ(worst(examine(facts)), Level::ok) << "who asks for it knows";
}

TEST(DoctorNetwork, ShortPacketsOnAFastInterface) {
  const Findings findings =
      examine(NetworkFacts{.nics = {nic("eth0", "10.0.0.1", 25000)}, .default_route = "10.0.0.1"});
  EXPECT_EQ(findings.front().level, Level::note);
  EXPECT_THAT(findings.front().remedy, HasSubstr("mtu 9000"));
  const Findings alias =
      examine(NetworkFacts{.nics = {nic("eth0:1", "10.0.0.2", 25000)}, .default_route = "10.0.0.2"});
  EXPECT_THAT(alias.front().remedy, HasSubstr("ip link set eth0 mtu 9000"));
}

TEST(DoctorNetwork, WithoutADefaultRoute) {
  const Findings findings = examine(NetworkFacts{.nics = {nic("eth0", "10.0.0.1", {})}});
  EXPECT_EQ(findings.back().level, Level::note);
  EXPECT_THAT(findings.back().remedy, HasSubstr("TUTTI_INTERFACE"));
  EXPECT_THAT(findings.front().what, HasSubstr("speed unknown"));
}

TEST(DoctorNetwork, ReadsSpeedAndMtu) {
  FakeRoot fake;
  fake.file("/sys/class/net/lo/mtu", "65536\n").file("/sys/class/net/lo/speed", "-1\n");
  const NetworkFacts facts = read_network(fake.root(), "");
  const auto lo = std::ranges::find_if(facts.nics, [](const Nic& one) { return one.interface.name == "lo"; });
  ASSERT_TRUE(lo != facts.nics.end()) << "every host has a loopback";
  EXPECT_EQ(lo->mtu, 65536);
  EXPECT_EQ(lo->megabits, std::nullopt);
}

TEST(DoctorNetwork, AnAliasIsAsFastAsItsDevice) {
  FakeRoot fake;
  fake.file("/sys/class/net/lo/mtu", "65536\n").file("/sys/class/net/lo/speed", "25000\n");
  bootstrap::test::Child child([&] {
    if (!enter_bare_network() || !run_ip("addr add 127.0.0.9/8 dev lo label lo:1")) return 77;
    for (const Nic& one : read_network(fake.root(), "").nics)
      if (one.interface.name == "lo:1") return one.megabits == 25000 && one.mtu == 65536 ? 0 : 1;
    return 2;
  });
  const int code = child.wait();
  if (code == 77) GTEST_SKIP() << "no network namespaces, or no ip(8) here";
  EXPECT_EQ(code, 0);
}

TEST(DoctorNetwork, TakesTheNamesThatRanksTake) {
  bootstrap::test::Child child([] {
    if (!enter_own_network() || !run_ip("link property add dev lo altname tutti0")) return 77;
    return worst(examine(read_network(FakeRoot().root(), "tutti0"))) == Level::ok ? 0 : 1;
  });
  const int code = child.wait();
  if (code == 77) GTEST_SKIP() << "no network namespaces, or no ip(8) that gives other names, here";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace tutti::doctor
