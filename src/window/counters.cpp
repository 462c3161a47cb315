#include "window/counters.hpp"

#include <algorithm>

namespace tutti::detail {

Counters::Counters(std::byte* memory, std::uint32_t numbers, int ranks)
    : memory_(memory),
      numbers_(numbers),
      ranks_(ranks),
      taken_(std::size_t{numbers} * static_cast<std::size_t>(ranks)) {}

void Counters::add(std::uint32_t id, Rank source) const {
  auto* word = reinterpret_cast<std::uint64_t*>(memory_ + offset_of(id, source, ranks_));
  std::atomic_ref(*word).fetch_add(1, std::memory_order_release);
}

void Counters::add_beside(std::uint32_t id, Rank source) {
  --taken_[offset_of(id, source, ranks_) / sizeof(std::uint64_t)];
}

std::uint64_t Counters::pending(std::uint32_t id, Rank source) const {
  const std::size_t offset = offset_of(id, source, ranks_);
  auto* word = reinterpret_cast<std::uint64_t*>(memory_ + offset);
  return std::atomic_ref(*word).load(std::memory_order_acquire) - taken_[offset / sizeof(std::uint64_t)];
}

std::uint64_t Counters::arrived(std::uint32_t id, Rank from) const {
  if (from >= 0) return pending(id, from);
  std::uint64_t sum = 0;
  for (Rank r = 0; r < ranks_; ++r) sum += pending(id, r);
  return sum;
}

bool Counters::take(std::uint32_t id, std::uint64_t count, Rank from) {
  if (arrived(id, from) < count) return false;
  for (Rank r = from >= 0 ? from : 0; count > 0; ++r) {
    const std::uint64_t some = std::min(count, pending(id, r));
    taken_[offset_of(id, r, ranks_) / sizeof(std::uint64_t)] += some;
    count -= some;
  }
  return true;
}

}  // namespace tutti::detail
