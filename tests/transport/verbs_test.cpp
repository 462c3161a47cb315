// The verbs transport on real queue pairs, where this machine has RDMA devices (scripts/rdma-lab makes some).
#include <gtest/gtest.h>

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

}  // namespace

INSTANTIATE_TEST_SUITE_P(Verbs, Conformance, conformance_of(on_devices("device", 1)), conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsRails, Conformance, conformance_of(on_devices("two", 2)), conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsUnusual, Conformance, conformance_of(on_devices("sends", 1, unusual())),
                         conformance_name);

}  // namespace tutti::transport::testing
