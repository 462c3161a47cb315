// The verbs transport on a fabric that exists in memory only: passes the conformance suite in every variation
// of what devices can do.
#include "rig.hpp"
#include "verbs_ranks.hpp"

namespace tutti::transport::testing {

namespace {

Subject on_fake(const std::string& name, int rails = 1, const FakeDevice& like = {},
                const verbs::VerbsOptions& options = {}) {
  return {.name = name,
          .make = [=](int ranks) { return fake_ranks(ranks, rails, like, options); },
          .patience = std::chrono::seconds(30)};
}

verbs::VerbsOptions with_signal(verbs::Signal signal) {
  verbs::VerbsOptions options;
  options.signal = signal;
  return options;
}

FakeDevice without_inline() {
  FakeDevice device;
  device.max_inline = 0;
  return device;
}
FakeDevice with_short_messages() {
  FakeDevice device;
  device.longest_message = 50'000;
  return device;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(VerbsFake, Conformance, conformance_of(on_fake("plain")), conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsFakeRails, Conformance, conformance_of(on_fake("three", 3)), conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsFakeOwnReceives, Conformance,
                         conformance_of(on_fake("own", 1, without_shared_receives())), conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsFakeNoInline, Conformance, conformance_of(on_fake("none", 2, without_inline())),
                         conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsFakeShort, Conformance,
                         conformance_of(on_fake("split", 1, with_short_messages())), conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsFakeSeparate, Conformance,
                         conformance_of(on_fake("separate", 2, {}, with_signal(verbs::Signal::separate))),
                         conformance_name);
INSTANTIATE_TEST_SUITE_P(VerbsFakeSend, Conformance,
                         conformance_of(on_fake("send", 2, without_inline(),
                                                with_signal(verbs::Signal::send))),
                         conformance_name);

}  // namespace tutti::transport::testing
