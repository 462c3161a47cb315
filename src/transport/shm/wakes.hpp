/// \file
/// Whom a rank has news for, and who therefore is to be woken: not at once, but when the rank has nothing
/// else to do. Where ranks share processors, a sleeper that is woken by the first of many messages runs in
/// between the others, at the price of a context switch each, and finds one message each time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transport/shm/arena.hpp"
#include "transport/shm/keyed_socket.hpp"

namespace tutti::transport::shm {

/// Of one rank; one thread at a time.
class Wakes {
 public:
  /// `keys`: of the bells of this host's ranks; `mine`: of this one's. Without them nobody sleeps in poll(2).
  explicit Wakes(std::shared_ptr<Arena> arena, std::vector<Key> keys = {}, const Key& mine = {})
      : arena_(std::move(arena)),
        sleepers_(&arena_->header().sleepers),
        is_owed_(static_cast<std::size_t>(arena_->layout().ranks)),
        keys_(std::move(keys)),
        bell_(mine) {}
  /// There is news for `ranks` of this host. Without a fence between publishing it and looking here, one who
  /// just falls asleep can be missed; sleeps are therefore short.
  template <class Ranks>
  void owe(const Ranks& ranks) {
    if (sleepers_->load(std::memory_order_relaxed) != 0) [[unlikely]]
      note(ranks);
  }
  /// Wakes those that sleep.
  void settle() {
    if (!owed_.empty()) [[unlikely]]
      wake_all();
  }
  /// What wakes this rank while its word says `in_poll`.
  [[nodiscard]] Bell& bell() { return bell_; }

 private:
  void note(std::span<const Rank> ranks);
  void wake_all();
  std::shared_ptr<Arena> arena_;
  const std::atomic<std::uint32_t>* sleepers_;
  std::vector<Rank> owed_;
  std::vector<std::uint8_t> is_owed_;  ///< by rank of this host
  std::vector<Key> keys_;              ///< likewise
  Bell bell_;
};

}  // namespace tutti::transport::shm
