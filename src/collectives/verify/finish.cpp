// What a proof can only check when every lane has run as far as it gets.
#include <algorithm>

#include <fmt/format.h>

#include "collectives/verify/run.hpp"

namespace tutti::proof {

std::optional<Fault> Run::deadlock() {
  for (Process& process : processes_) {
    if (ended(process)) continue;
    const Operand& operand = *blocked_on(process);
    const Step& step = next_step(process);
    const bool receives =
        &operand >= step.sources.data() && &operand < step.sources.data() + step.sources.size();
    const std::string what =
        receives ? fmt::format("deadlock: waits for a message from rank {} on channel {}", operand.rank,
                               operand.channel)
                 : fmt::format(
                       "deadlock: waits for room in the FIFO to rank {} on channel {}, which holds {} "
                       "(credits)",
                       operand.rank, operand.channel, credits_);
    return Fault{what, process.rank, process.lane, static_cast<int>(process.next)};
  }
  return std::nullopt;
}

std::optional<Fault> Run::check_messages() const {
  for (const auto& [key, fifo] : fifos_) {
    if (fifo.in_flight() == 0) continue;
    const Event sent = fifo.front().sent;
    const Process& sender = processes_[static_cast<std::size_t>(sent.lane)];
    return Fault{"sends a message that is never received", sender.rank, sender.lane,
                 static_cast<int>(sent.time) - 1};
  }
  return std::nullopt;
}

std::optional<Fault> Run::check_order() const {
  std::vector<Clock> ends;  // by rank: what is known to have happened when its call returns
  for (Rank rank = 0; rank < schedule_.ranks; ++rank) {
    Clock& end = ends.emplace_back(processes_.size(), 0);
    const auto first = static_cast<std::size_t>(first_process_[static_cast<std::size_t>(rank)]);
    const auto last = static_cast<std::size_t>(first_process_[static_cast<std::size_t>(rank) + 1]);
    for (std::size_t lane = first; lane < last; ++lane) {
      const Clock& known = processes_[lane].clock->steps;
      for (std::size_t i = 0; i < end.size(); ++i) end[i] = std::max(end[i], known[i]);
      end[lane] = std::max(end[lane], processes_[lane].next);
    }
  }
  for (const auto& [where, time] : touched_) {
    const auto& [owner, lane] = where;
    if (time <= ends[static_cast<std::size_t>(owner)][static_cast<std::size_t>(lane)]) continue;
    const Process& process = processes_[static_cast<std::size_t>(lane)];
    return Fault{fmt::format("race: touches memory of rank {}, whose call may have returned", owner),
                 process.rank, process.lane, static_cast<int>(time) - 1};
  }
  if (schedule_.collective != Collective::barrier || schedule_.ranks == 1) return std::nullopt;
  for (Rank rank = 0; rank < schedule_.ranks; ++rank) {
    const auto known = ends[static_cast<std::size_t>(rank)].begin();
    for (std::size_t other = 0; other + 1 < first_process_.size(); ++other) {
      if (static_cast<Rank>(other) != rank &&
          std::all_of(known + first_process_[other], known + first_process_[other + 1],
                      [](std::uint32_t steps) { return steps == 0; })) {
        return Fault{fmt::format("may leave the barrier before rank {} has entered it", other), rank};
      }
    }
  }
  return std::nullopt;
}

}  // namespace tutti::proof
