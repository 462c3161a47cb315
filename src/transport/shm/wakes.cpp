#include "transport/shm/wakes.hpp"

#include "base/futex.hpp"

namespace tutti::transport::shm {

void Wakes::note(std::span<const Rank> ranks) {
  for (const Rank rank : ranks)
    if (!std::exchange(is_owed_[static_cast<std::size_t>(rank)], std::uint8_t{1})) owed_.push_back(rank);
}

void Wakes::wake_all() {
  for (const Rank rank : owed_) {
    is_owed_[static_cast<std::size_t>(rank)] = 0;
    auto& word = arena_->control(rank).sleeping;
    if (word.load(std::memory_order_relaxed) == awake) continue;
    const std::uint32_t slept = word.exchange(awake);
    if (slept == on_word) futex_wake(word);
    if (slept == in_poll) bell_.ring(keys_[static_cast<std::size_t>(rank)]);
  }
  owed_.clear();
}

}  // namespace tutti::transport::shm
