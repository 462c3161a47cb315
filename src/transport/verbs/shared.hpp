/// \file
/// What all links of a transport share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/rail.hpp"
#include "transport/verbs/slot_pool.hpp"

namespace tutti::transport::verbs {

/// Bounds that peers agree on when a transport is made.
struct Agreed {
  std::size_t message_bytes = 0;
  std::size_t stripe_from = 0;
};

class Link;

struct Shared {
  std::shared_ptr<Verbs> verbs;
  VerbsOptions options;
  Agreed agreed;
  Rank rank = -1;
  std::vector<std::unique_ptr<Rail>> rails;
  Domains domains;  ///< of the rails
  Traffic traffic;
  std::unique_ptr<SlotPool> pool;
  std::unique_ptr<MemoryCache> cache;                            ///< the caller's memory
  std::function<void()> poll;                                    ///< takes what completions there are
  Clock::time_point now = Clock::now();                          ///< when it was last called
  std::vector<std::unordered_map<std::uint32_t, Link*>> owners;  ///< by rail: of queue pairs, by their number
  PrivateDescriptor looks;  ///< epoll over control connections (its data are ranks) and events of rails
  std::uint64_t credits_violated = 0;  ///< immediates that came without a credit: always 0
  std::optional<Error> failure;        ///< of the first link that failed

  /// Adds a descriptor to `looks`. Throws Error(system).
  void watch(int fd, std::uint32_t data) const;
};

}  // namespace tutti::transport::verbs
