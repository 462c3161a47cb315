/// \file
/// Verbs transports of several ranks of this process.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/deadline.hpp"
#include "conformance.hpp"
#include "tcp_ranks.hpp"
#include "transport/verbs/verbs_transport.hpp"
#include "verbs_fake.hpp"

namespace tutti::transport::testing {

/// The options of a rank.
using VerbsOptionsOf = std::function<verbs::VerbsOptions(Rank)>;
/// What a rank uses for libibverbs.
using VerbsOf = std::function<std::shared_ptr<verbs::Verbs>(Rank)>;

/// Rank r uses devices "fake<r * rails>" and on, all `like` this one.
inline std::vector<FakeDevice> fabric_for(int ranks, int rails, const FakeDevice& like = {}) {
  auto devices = fake_devices(ranks * rails);
  for (auto& device : devices) {
    auto mine = like;
    mine.name = device.name;
    mine.gids = device.gids;
    device = mine;
  }
  return devices;
}
inline verbs::VerbsOptions fake_options(Rank rank, int rails, verbs::VerbsOptions options = {}) {
  for (int k = 0; k < rails; ++k) options.devices.push_back("fake" + std::to_string(rank * rails + k));
  return options;
}
inline verbs::VerbsOptions one_fake_device(Rank rank) { return fake_options(rank, 1); }

/// One transport a rank, all at once: setting up is collective. Rethrows what the first one to fail threw.
inline Transports verbs_ranks(int ranks, const VerbsOf& verbs_of,
                              const VerbsOptionsOf& options_of = one_fake_device) {
  Transports transports(static_cast<std::size_t>(ranks));
  const auto groups = local_groups(ranks);
  const auto listeners = listeners_at("127.0.0.1", ranks);
  std::vector<std::exception_ptr> failures(transports.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < transports.size(); ++i)
    threads.emplace_back([&, i] {
      const auto rank = static_cast<Rank>(i);
      try {
        transports[i] = std::make_unique<verbs::VerbsTransport>(groups[i], listeners[i], tcp_secret,
                                                                options_of(rank), verbs_of(rank));
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  threads.clear();
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return transports;
}

/// All ranks move until it holds. False where it does not within 20 s.
template <class Condition>
bool eventually(const Transports& ranks, const Condition& holds) {
  for (const Deadline deadline(std::chrono::seconds(20)); !deadline.passed();) {
    if (holds()) return true;
    for (const auto& rank : ranks) rank->progress();
  }
  return false;
}

inline FakeDevice without_shared_receives() {
  FakeDevice device;
  device.max_srq = 0;
  return device;
}

inline VerbsOf same(std::shared_ptr<verbs::Verbs> verbs) {
  return [verbs](Rank) { return verbs; };
}

inline Transports fake_ranks(int ranks, int rails = 1, const FakeDevice& like = {},
                             const verbs::VerbsOptions& options = {}) {
  return verbs_ranks(ranks, same(fake_verbs(fabric_for(ranks, rails, like))),
                     [=](Rank rank) { return fake_options(rank, rails, options); });
}

}  // namespace tutti::transport::testing
