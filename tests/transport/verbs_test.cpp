// The verbs transport on real queue pairs, where this machine has RDMA devices (scripts/rdma-lab makes some).
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "transport/verbs/probe.hpp"
#include "verbs_devices.hpp"

namespace tutti::transport::testing {

namespace {

Subject on_devices(const std::string& name, int rails, const verbs::VerbsOptions& options = {}) {
  return {.name = name, .make = [=](int ranks) { return device_ranks(ranks, rails, options); }};
}

verbs::VerbsOptions unusual() {
  verbs::VerbsOptions options;
  options.signal = verbs::Signal::send;
  options.shared_receives = false;
  options.mtu = 1024;
  return options;
}

// Through each of its addresses a port must reach itself, IPv6 ones too; through one that it lacks it cannot.
TEST(VerbsProbe, EveryGidOfADeviceIsProvedByAMessage) {
  const auto nodes = device_nodes(1);
  if (nodes.empty()) GTEST_SKIP() << "no RDMA device";
  const auto table = verbs::real_verbs();
  int ipv6 = 0;
  for (const auto& device : verbs::discover(*table)) {
    if (device.name != nodes[0][0]) continue;
    const verbs::ChosenPort port{device, device.ports.at(0)};
    for (const auto& gid : port.port.gids) {
      EXPECT_EQ(verbs::prove_gid(*table, port, {gid, ""}, {}), "") << to_string(gid);
      ipv6 += gid.is_ipv4() ? 0 : 1;
    }
    auto missing = port.port.gids.at(0);
    missing.index = 99;
    EXPECT_NE(verbs::prove_gid(*table, port, {missing, ""}, {}), "");
  }
  EXPECT_GT(ipv6, 0);
}

/// write(2) calls of this process.
long writes() {
  std::ifstream io("/proc/self/io");
  for (std::string name; io >> name;)
    if (name == "syscw:") {
      long count = 0;
      io >> count;
      return count;
    }
  return -1;
}

// Soft-RoCE's library rings a doorbell by write(2), and nothing else here writes while nobody sleeps.
TEST(VerbsDoorbell, AMessageIsOneSystemCall) {
  if (device_nodes(1).size() < 2) GTEST_SKIP() << "needs two RDMA nodes";
  if (device_nodes(1)[0][0].rfind("rx", 0) != 0) GTEST_SKIP() << "only Soft-RoCE enters the kernel to send";
  verbs::VerbsOptions options;
  options.signal = verbs::Signal::separate;  // a message is two requests
  const auto ranks = device_ranks(2, 1, options);
  std::vector<std::byte> data(ranks[0]->max_message_bytes());
  const auto pass = [&](Rank from, std::size_t bytes) {
    ASSERT_TRUE(
        ranks[static_cast<std::size_t>(from)]->sender(1 - from, 0).try_send(data.data(), bytes, 1, false));
    Receiver& receiver = ranks[static_cast<std::size_t>(1 - from)]->receiver(from, 0);
    eventually(ranks, [&] { return receiver.try_receive(data.data(), bytes, 1); });
  };
  pass(0, 1), pass(1, 1);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, std::size_t{5000}, data.size()}) {
    const long before = writes();
    for (int k = 0; k < 8; ++k) pass(0, bytes);
    EXPECT_EQ(writes() - before, 8 + 2) << bytes << " bytes, and credits four at a time";
    pass(1, bytes);
    const long between = writes();
    for (int k = 0; k < 8; ++k) pass(0, bytes), pass(1, bytes);
    EXPECT_EQ(writes() - between, 16) << bytes << " bytes, and credits that ride along";
  }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Verbs, Conformance, conformance_of(on_devices("device", 1)), conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsRails, Conformance, conformance_of(on_devices("two", 2)), conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsUnusual, Conformance, conformance_of(on_devices("sends", 1, unusual())),
                         conformance_name);

}  // namespace tutti::transport::testing
