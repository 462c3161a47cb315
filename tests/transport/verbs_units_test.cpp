// The parts of the verbs transport that need no device, or the fake one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <utility>

#include <tutti/error.hpp>

#include "bootstrap/own_network.hpp"
#include "bootstrap/ranks.hpp"
#include "own_folder.hpp"
#include "thrown.hpp"
#include "transport/verbs/choice.hpp"
#include "transport/verbs/probe.hpp"
#include "transport/verbs/status.hpp"
#include "transport/verbs/stripe.hpp"
#include "transport/verbs/wire.hpp"
#include "variable.hpp"
#include "verbs_fake.hpp"
#include "verbs_faulty.hpp"

namespace tutti::transport::testing {

namespace {

using bootstrap::test::enter_bare_network;
using bootstrap::test::run_ip;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(VerbsWire, AnImmediateIsUnpackedAsItWasPacked) {
  for (const bool credit : {false, true})
    for (const int channel : {0, 3})
      for (const int part : {0, 7, 15})
        for (const int epoch : {0, 255})
          for (const int sequence : {0, 1, 65535}) {
            const verbs::Immediate one{credit, channel, part, static_cast<std::uint8_t>(epoch),
                                       static_cast<std::uint16_t>(sequence)};
            const auto other = verbs::Immediate::unpack(one.pack());
            EXPECT_EQ(other.credit, credit);
            EXPECT_EQ(other.channel, channel);
            EXPECT_EQ(other.part, part);
            EXPECT_EQ(other.epoch, epoch);
            EXPECT_EQ(other.sequence, sequence);
          }
}

TEST(VerbsStripe, PartsAreTheMessage) {
  for (const int parts : {1, 2, 3, 8})
    for (const std::size_t bytes : {0, 1, 4095, 65536, 65537, 262144}) {
      std::size_t end = 0;
      for (int k = 0; k < parts; ++k) {
        const auto part = verbs::part_of(bytes, parts, k);
        EXPECT_EQ(part.offset, end);
        end += part.bytes;
      }
      EXPECT_EQ(end, bytes);
    }
  EXPECT_EQ(verbs::parts_of(65535, 4, 65536), 1);
  EXPECT_EQ(verbs::parts_of(65536, 4, 65536), 4);
  EXPECT_EQ(verbs::requests_of(0, 100, false), 1U);
  EXPECT_EQ(verbs::requests_of(201, 100, true), 4U);
}

TEST(VerbsStatus, TheBudgetThatRanOutIsNamed) {
  const verbs::Place place{0, 3, "mlx5_0", 1};
  const auto error = verbs::completion_error(place, IBV_WC_RETRY_EXC_ERR, 0x81, {14, 6});
  EXPECT_EQ(error.code(), ErrorCode::peer_lost);
  EXPECT_EQ(error.ranks(), std::vector<Rank>{3});
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("mlx5_0 port 1 to rank 3"), HasSubstr("0.47 s"), HasSubstr("timeout 14"),
                    HasSubstr("6 retries"), HasSubstr("0x81"), HasSubstr("TUTTI_VERBS_TIMEOUT")));
}

TEST(VerbsStatus, EveryStatusHasARemedy) {
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; ++status) {
    const auto error =
        verbs::completion_error({0, 1, "d", 1}, static_cast<ibv_wc_status>(status), 0, {18, 7});
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("d port 1"), HasSubstr("]; "), Not(EndsWith("; ")), HasSubstr("[status")));
  }
}

TEST(VerbsStatus, WrongAnswersAreThePeersAndWhatTheDeviceSaysOfItselfIsNot) {
  const std::pair<ibv_wc_status, Rank> blamed[] = {{IBV_WC_BAD_RESP_ERR, 1},  {IBV_WC_RESP_TIMEOUT_ERR, 1},
                                                   {IBV_WC_REM_ABORT_ERR, 1}, {IBV_WC_LOC_PROT_ERR, 0},
                                                   {IBV_WC_FATAL_ERR, 0},     {IBV_WC_GENERAL_ERR, 0}};
  for (const auto& [status, rank] : blamed)
    EXPECT_EQ(verbs::completion_error({0, 1, "d", 1}, status, 0, {18, 7}).ranks(), std::vector<Rank>{rank})
        << ::ibv_wc_status_str(status);
}

TEST(VerbsStatus, ResultsOfAllProvidersAreErrnos) {
  errno = EAGAIN;
  EXPECT_EQ(verbs::errno_of(-1), EAGAIN);
  EXPECT_EQ(verbs::errno_of(EINVAL), EINVAL);
  EXPECT_EQ(verbs::errno_of(-EINVAL), EINVAL);
}

TEST(VerbsStatus, ACallThatLacksDescriptorsNamesTheLimit) {
  EXPECT_THAT(verbs::call_text(EMFILE), EndsWith("(ulimit -n)"));
}

TEST(VerbsStatus, RetriesForEverAreTakenAway) {
  EXPECT_EQ(verbs::effective_retries(7, 0), 6);
  EXPECT_EQ(verbs::effective_retries(7, 0xffffff), 6);
  EXPECT_EQ(verbs::effective_retries(7, 0x02c9), 7);
  EXPECT_EQ(verbs::effective_retries(3, 0xffffff), 3);
  EXPECT_NEAR(verbs::retry_budget(18, 7), 8.59, 0.01);
}

verbs::Gid ipv6_gid(int index, std::uint8_t first, bool v2) {
  verbs::Gid gid;
  gid.index = index;
  gid.raw[0] = first;
  gid.raw[1] = 0x80;
  gid.raw[15] = 1;
  gid.roce_v2 = v2;
  return gid;
}

TEST(VerbsGid, TheBestKindOfAddressComesFirst) {
  verbs::Port port;
  port.layer = verbs::LinkLayer::roce;
  auto old = ipv4_gid(2, "10.0.0.1");
  old.roce_v2 = false;
  port.gids = {ipv6_gid(0, 0xfe, false), ipv6_gid(1, 0xfe, true), old, ipv6_gid(4, 0x20, true),
               ipv4_gid(5, "10.0.0.1")};
  std::vector<int> order;
  for (const auto& candidate : verbs::gid_candidates(port, -1)) order.push_back(candidate.gid.index);
  EXPECT_EQ(order, (std::vector<int>{5, 4, 1, 2, 0}));
  EXPECT_EQ(to_string(port.gids[4]), "10.0.0.1");
  EXPECT_EQ(to_string(port.gids[1]), "fe80::1");
  EXPECT_THAT(verbs::gid_candidates(port, -1)[0].reason, HasSubstr("RoCE v2 IPv4"));
  ASSERT_EQ(verbs::gid_candidates(port, 2).size(), 1U);
  EXPECT_EQ(verbs::gid_candidates(port, 2)[0].reason, "it was asked for");
  EXPECT_TRUE(verbs::gid_candidates(port, 9).empty());
}

TEST(VerbsGid, IsNoneThatQueuePairsCannotName) {
  verbs::Port port;
  port.layer = verbs::LinkLayer::roce;
  port.gids = {ipv4_gid(256, "10.0.0.2"), ipv4_gid(255, "10.0.0.1")};
  const auto candidates = verbs::gid_candidates(port, -1);
  ASSERT_EQ(candidates.size(), 1U);
  EXPECT_EQ(candidates[0].gid.index, 255);
}

verbs::Device device(const std::string& name, double gigabits, int node, bool active = true) {
  verbs::Device one;
  one.name = name;
  one.numa_node = node;
  verbs::Port port;
  port.active = active;
  port.gigabits = gigabits;
  one.ports = {port};
  return one;
}

TEST(VerbsChoice, TheFastestAndNearestDevice) {
  const std::vector<verbs::Device> devices{device("slow", 25, 0), device("down", 400, 0, false),
                                           device("far", 100, 1), device("near", 100, 0)};
  std::string why;
  verbs::VerbsOptions options;
  EXPECT_EQ(verbs::choose_ports(devices, options, 0, why).at(0).device.name, "near");
  options.devices = {"all"};
  EXPECT_EQ(verbs::choose_ports(devices, options, 0, why).size(), 3U);
  EXPECT_EQ(verbs::choose_ports(std::vector(10, device("many", 100, 0)), options, 0, why).size(), 8U);
  options.devices = {"far", "slow"};
  const auto named = verbs::choose_ports(devices, options, 0, why);
  ASSERT_EQ(named.size(), 2U);
  EXPECT_EQ(named[0].device.name, "far");
  EXPECT_TRUE(verbs::choose_ports({}, {}, 0, why).empty());
  EXPECT_EQ(why, "no RDMA device");
  EXPECT_TRUE(verbs::choose_ports({devices[1]}, {}, 0, why).empty());
  EXPECT_EQ(why, "no active port on down");
}

TEST(VerbsChoice, APortThatIsDownIsNoneAndOneThatThereIsNotIsRefused) {
  verbs::Device two = device("two", 100, 0);
  two.ports.push_back(two.ports[0]);
  two.ports[1].number = 2;
  two.ports[1].active = false;
  const std::vector<verbs::Device> devices{two};
  std::string why;
  verbs::VerbsOptions options;
  options.port = 2;
  EXPECT_TRUE(verbs::choose_ports(devices, options, 0, why).empty());
  EXPECT_EQ(why, "no active port 2 (TUTTI_VERBS_PORT) on two");
  options.port = 3;
  EXPECT_TRUE(verbs::choose_ports({}, options, 0, why).empty());
  for (const auto& among : {std::vector<std::string>{}, {"all"}}) {
    options.devices = among;
    const auto error =
        test::thrown_by([&] { static_cast<void>(verbs::choose_ports(devices, options, 0, why)); });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_THAT(error.text, HasSubstr("no RDMA device has a port 3, which TUTTI_VERBS_PORT asks for; "
                                      "there are: two port 1, two port 2"));
  }
}

TEST(VerbsChoice, WhatDoesNotExistIsRefusedWithWhatDoes) {
  const auto refused = [](const std::vector<verbs::Device>& devices) {
    verbs::VerbsOptions options;
    options.devices = {"mlx5_9"};
    std::string why;
    const auto error =
        test::thrown_by([&] { static_cast<void>(verbs::choose_ports(devices, options, 0, why)); });
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    return error.text;
  };
  EXPECT_THAT(refused({device("mlx5_0", 100, 0)}),
              AllOf(HasSubstr("mlx5_9"), HasSubstr("there are: mlx5_0")));
  EXPECT_THAT(refused({}), AllOf(HasSubstr("mlx5_9"), HasSubstr("this host has no RDMA device")));
}

TEST(VerbsChoice, APartitionNeedsAFullMember) {
  EXPECT_TRUE(verbs::share_partition(0xffff, 0x7fff));
  EXPECT_TRUE(verbs::share_partition(0x8001, 0x8001));
  EXPECT_FALSE(verbs::share_partition(0x0001, 0x0001));
  EXPECT_FALSE(verbs::share_partition(0x8001, 0x8002));
  EXPECT_TRUE(verbs::share_partition(0, 0x0001)) << "not known";
}

/// As the environment says, where only this variable says something.
verbs::VerbsOptions options_by(const std::string& name, const std::string& value) {
  const test::Variable set(name.c_str(), value.c_str());
  return verbs::VerbsOptions::from_environment();
}

TEST(VerbsOptions, AreReadFromTheEnvironment) {
  using verbs::VerbsOptions;
  EXPECT_EQ(options_by("TUTTI_VERBS_DEVICES", "a,b").devices, (std::vector<std::string>{"a", "b"}));
  struct Row {
    const char* name;
    int VerbsOptions::*field;
    int least, most;
  };
  for (const Row& row : {Row{"PORT", &VerbsOptions::port, 1, 255},
                         {"GID_INDEX", &VerbsOptions::gid_index, 0, 255},
                         {"PKEY_INDEX", &VerbsOptions::pkey_index, 0, 65535},
                         {"SERVICE_LEVEL", &VerbsOptions::service_level, 0, 15},
                         {"TRAFFIC_CLASS", &VerbsOptions::traffic_class, 0, 255},
                         {"MTU", &VerbsOptions::mtu, 256, 4096},
                         {"TIMEOUT", &VerbsOptions::timeout, 1, 31},
                         {"RETRIES", &VerbsOptions::retries, 0, 7},
                         {"CONNECTED_PEERS", &VerbsOptions::connected_peers, 1, 1 << 20}}) {
    const std::string name = std::string("TUTTI_VERBS_") + row.name;
    for (const int value : {row.least, row.most})
      EXPECT_EQ(options_by(name, std::to_string(value)).*row.field, value) << name;
    for (const int value : {row.least - 1, row.most + 1})
      EXPECT_THROW(static_cast<void>(options_by(name, std::to_string(value))), Error) << name << value;
  }
  EXPECT_THROW(static_cast<void>(options_by("TUTTI_VERBS_MTU", "1500")), Error);
}

TEST(VerbsDevices, AreFound) {
  const auto fake = fake_verbs(fake_devices(2));
  const auto devices = verbs::discover(*fake, "/nonexistent");
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[1].name, "fake1");
  ASSERT_EQ(devices[1].ports.size(), 1U);
  const verbs::Port& port = devices[1].ports[0];
  EXPECT_EQ(verbs::name(port.layer), "RoCE");
  EXPECT_EQ(port.gigabits, 200);
  EXPECT_EQ(port.mtu, 4096);
  EXPECT_TRUE(port.active);
  ASSERT_EQ(port.gids.size(), 1U);
  EXPECT_EQ(port.gids[0].index, 1);
  EXPECT_EQ(verbs::to_string(port.gids[0]), "10.9.0.2");
  EXPECT_TRUE(port.gids[0].roce_v2);
}

// Messages are cut by it: by 0 that is a division by zero, or takes for ever.
TEST(VerbsDevices, ThatDoNotSayHowMuchTheyTakeAtOnceTakeAMebibyte) {
  FakeDevice device;
  device.longest_message = 0;
  const auto fake = fake_verbs({device});
  const auto devices = verbs::discover(*fake, "/nonexistent");
  EXPECT_EQ(devices.at(0).ports.at(0).longest_message, 1U << 20U);
}

TEST(VerbsDevices, OfIwarpHaveTheAddressesOfTheirInterfaceAndItsAliases) {
  bootstrap::test::Child child([] {
    if (!enter_bare_network() || !run_ip("link add e0 address 02:00:00:00:00:07 type veth peer name e1") ||
        !run_ip("addr add 10.77.9.1/24 dev e0") || !run_ip("addr add 10.77.8.1/24 dev e0 label e0:1") ||
        !run_ip("addr add 10.77.7.1/24 dev e1"))
      return 77;
    FakeDevice device;
    device.transport = IBV_TRANSPORT_IWARP;
    device.gids.resize(1);
    device.gids[0].raw = {2, 0, 0, 0, 0, 7};
    const auto fake = fake_verbs({device});
    std::string found;
    const auto devices = verbs::discover(*fake, "/nonexistent");
    for (const auto& gid : devices.at(0).ports.at(0).gids) found += verbs::to_string(gid) + " ";
    return found == "10.77.9.1 10.77.8.1 " ? 0 : 1;
  });
  const int code = child.wait();
  if (code == 77) GTEST_SKIP() << "no network namespaces, or no ip(8) here";
  EXPECT_EQ(code, 0);
}

TEST(VerbsDevices, PlaceAndRateComeFromTheKernel) {
  const test::OwnFolder root;
  root.write("fake0/ports/1/rate", "800 Gb/sec (4X XDR)\n");
  root.write("fake0/device/numa_node", "1\n");
  const auto fake = fake_verbs(fake_devices(1));
  const auto devices = verbs::discover(*fake, root.path());
  EXPECT_EQ(devices[0].numa_node, 1);
  EXPECT_EQ(devices[0].ports[0].gigabits, 800);
  EXPECT_THAT(devices[0].pci_path, HasSubstr("fake0/device"));
}

TEST(VerbsProbe, AGidIsTakenOnlyWhenAMessageComesThroughIt) {
  auto devices = fake_devices(1);
  devices[0].gids.push_back(ipv4_gid(3, "10.9.0.77"));
  auto faults = std::make_shared<VerbsFaults>();
  FaultyVerbs faulty(fake_verbs(devices), faults);
  const auto found = verbs::discover(faulty);
  const verbs::ChosenPort port{found[0], found[0].ports[0]};
  EXPECT_EQ(verbs::working_gid(faulty, port, {}).gid.index, 1);
  faults->completion_status = IBV_WC_RETRY_EXC_ERR;
  EXPECT_EQ(verbs::working_gid(faulty, port, {}).gid.index, 3);
  EXPECT_EQ(faults->fired, 1);
  verbs::VerbsOptions options;
  options.gid_index = 9;
  const auto error = test::thrown_by([&] { static_cast<void>(verbs::working_gid(faulty, port, options)); });
  EXPECT_EQ(error.code, ErrorCode::invalid_argument) << "not what makes a transport do without RDMA";
  EXPECT_THAT(
      error.text,
      EndsWith("RDMA device fake0 port 1 has no GID 9, which TUTTI_VERBS_GID_INDEX asks for; it has 1, 3"));
}

}  // namespace

}  // namespace tutti::transport::testing
