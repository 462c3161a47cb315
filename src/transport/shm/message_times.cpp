#include "transport/shm/message_times.hpp"

#include <algorithm>

namespace tutti::transport::shm {

namespace {

constexpr std::size_t of_slots = index_of(Path::slots), of_direct = index_of(Path::direct);

std::int64_t ticks_of(Clock::time_point time) { return time.time_since_epoch().count(); }

}  // namespace

void MessageTimes::tell(std::size_t range, const PathTrial::Times& times) {
  const auto lacks = [&](std::size_t path) { return std::ranges::count(times[path], 0U) != 0; };
  if (lacks(of_slots) || lacks(of_direct)) return;
  SendTimes& mine = arena_.control(me_).sends[range];
  for (std::size_t i = 0; i < PathTrial::pairs; ++i) {
    mine.slots[i].store(times[of_slots][i], std::memory_order_relaxed);
    mine.direct[i].store(times[of_direct][i], std::memory_order_relaxed);
  }
  mine.told.store(ticks_of(Clock::now()), std::memory_order_release);
}

std::vector<PathTrial::Times> MessageTimes::of_others(std::size_t range, Clock::time_point since) const {
  std::vector<PathTrial::Times> all;
  for (Rank r = 0; r < arena_.layout().ranks; ++r) {
    const SendTimes& theirs = arena_.control(r).sends[range];
    if (r == me_ || theirs.told.load(std::memory_order_acquire) < ticks_of(since)) continue;
    PathTrial::Times& times = all.emplace_back();
    for (std::size_t i = 0; i < PathTrial::pairs; ++i) {
      times[of_slots][i] = theirs.slots[i].load(std::memory_order_relaxed);
      times[of_direct][i] = theirs.direct[i].load(std::memory_order_relaxed);
    }
  }
  return all;
}

}  // namespace tutti::transport::shm
