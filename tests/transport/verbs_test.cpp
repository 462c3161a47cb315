// The verbs transport on real queue pairs, where this machine has RDMA devices (scripts/rdma-lab makes some).
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

}  // namespace

INSTANTIATE_TEST_SUITE_P(Verbs, Conformance, conformance_of(on_devices("device", 1)), conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsRails, Conformance, conformance_of(on_devices("two", 2)), conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsUnusual, Conformance, conformance_of(on_devices("sends", 1, unusual())),
                         conformance_name);

}  // namespace tutti::transport::testing
