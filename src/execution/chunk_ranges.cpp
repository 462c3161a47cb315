#include "execution/chunk_ranges.hpp"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <tutti/error.hpp>

namespace tutti::execution {

namespace {

std::optional<ChunkRange> named(const Operand& o) {
  if (o.count == 0) return ChunkRange{};
  if (o.kind == Operand::Kind::memory && o.space != Space::scratch) return ChunkRange{o.first, o.count};
  return std::nullopt;
}

std::optional<ChunkRange> named(const Step& step) {
  for (const auto* operands : {&step.sources, &step.sinks})
    for (const Operand& o : *operands)
      if (const auto range = named(o)) return range;
  return std::nullopt;
}

using Ranges = std::vector<std::vector<ChunkRange>>;

// Runs the schedule on chunk numbers instead of data. A lane that awaits a message goes on when that is sent.
class Follow {
 public:
  explicit Follow(const Schedule& schedule)
      : schedule_(schedule),
        ranges_(schedule.lanes.size()),
        arrived_(schedule.lanes.size()),
        scratch_(schedule.lanes.size(),
                 std::vector<std::int32_t>(static_cast<std::size_t>(schedule.scratch), -1)) {
    for (std::size_t r = 0; r < schedule.lanes.size(); ++r) {
      ranges_[r].resize(schedule.lanes[r].size());
      arrived_[r].resize(schedule.lanes[r].size());
    }
  }

  std::vector<Ranges> run() {
    for (std::size_t r = 0; r < ranges_.size(); ++r)
      for (std::size_t l = 0; l < ranges_[r].size(); ++l) ready_.emplace_back(r, l);
    for (; !ready_.empty(); ready_.pop_front()) {
      const auto [r, l] = ready_.front();
      while (ranges_[r][l].size() < schedule_.lanes[r][l].size() && step(r, l)) {
      }
    }
    return std::move(ranges_);
  }

 private:
  using LaneOf = std::pair<std::size_t, std::size_t>;  ///< rank, lane
  struct Fifo {
    std::vector<ChunkRange> sent;
    std::size_t taken = 0;
    std::optional<LaneOf> awaited_by;
  };

  // If not all messages of the step are there, the lane awaits one of them.
  bool all_arrived(std::size_t r, std::size_t l, const Step& step) {
    for (std::size_t& arrived = arrived_[r][l]; arrived < step.sources.size(); ++arrived) {
      const Operand& o = step.sources[arrived];
      if (o.kind != Operand::Kind::message) continue;
      Fifo& fifo = fifos_[{o.rank, static_cast<Rank>(r), o.channel}];
      if (fifo.taken != fifo.sent.size()) continue;
      fifo.awaited_by = LaneOf(r, l);
      return false;
    }
    arrived_[r][l] = 0;
    return true;
  }

  void send(Fifo& fifo, const ChunkRange& range) {
    fifo.sent.push_back(range);
    if (const auto reader = std::exchange(fifo.awaited_by, std::nullopt)) ready_.push_back(*reader);
  }

  bool step(std::size_t r, std::size_t l) {
    const Step& step = schedule_.lanes[r][l][ranges_[r][l].size()];
    const auto me = static_cast<Rank>(r);
    if (!all_arrived(r, l, step)) return false;
    std::optional<ChunkRange> range;
    const auto is_about = [&](const ChunkRange& found) {
      if (range.value_or(found) != found) refuse(r, l);
      range = found;
    };
    for (const Operand& o : step.sources) {
      if (o.kind == Operand::Kind::message) {
        Fifo& fifo = fifos_[{o.rank, me, o.channel}];
        is_about(fifo.sent[fifo.taken++]);
      } else {
        const auto named_here = named(o);
        is_about(named_here ? *named_here : kept(r, l, o));
      }
    }
    for (const Operand& o : step.sinks)
      if (const auto named_here = named(o)) is_about(*named_here);
    const ChunkRange found = range.value_or(ChunkRange{});
    for (const Operand& o : step.sinks) {
      if (o.kind == Operand::Kind::message)
        send(fifos_[{me, o.rank, o.channel}], found);
      else if (o.space == Space::scratch)
        for (std::int32_t i = 0; i < o.count; ++i) place(r, o.first + i) = found.first + i;
    }
    ranges_[r][l].push_back(found);
    return true;
  }

  std::int32_t& place(std::size_t rank, std::int32_t chunk) {
    return scratch_[rank].at(static_cast<std::size_t>(chunk));
  }

  // What lies in scratch.
  ChunkRange kept(std::size_t r, std::size_t l, const Operand& o) {
    const std::int32_t first = place(r, o.first);
    for (std::int32_t i = 0; i < o.count; ++i)
      if (first < 0 || place(r, o.first + i) != first + i) refuse(r, l);
    return {first, o.count};
  }

  [[noreturn]] void refuse(std::size_t rank, std::size_t lane) const {
    throw Error(
        ErrorCode::invalid_schedule,
        fmt::format("schedule {}: rank {} lane {} step {}: its operands are not about the same chunks of "
                    "the buffer, one after the other; chunks differ in length, so a message, a slice of "
                    "scratch and every place of the output hold chunks that follow each other, the "
                    "output its own ones",
                    schedule_.name, rank, lane, ranges_[rank][lane].size()));
  }

  const Schedule& schedule_;
  std::vector<Ranges> ranges_;
  std::vector<std::vector<std::size_t>>
      arrived_;  ///< [rank][lane]: of its next step's sources, the first ones
  std::map<std::tuple<Rank, Rank, int>, Fifo> fifos_;
  std::deque<LaneOf> ready_;                        ///< lanes that may have a step to run
  std::vector<std::vector<std::int32_t>> scratch_;  ///< [rank][place]: which chunk it holds; -1: none
};

}  // namespace

std::vector<std::vector<ChunkRange>> chunk_ranges(const Schedule& schedule, Rank rank) {
  Ranges ranges;
  for (const Lane& lane : schedule.lanes[static_cast<std::size_t>(rank)]) {
    auto& out = ranges.emplace_back();
    for (const Step& step : lane) {
      const auto range = named(step);
      if (!range) return std::move(Follow(schedule).run()[static_cast<std::size_t>(rank)]);
      out.push_back(*range);
    }
  }
  return ranges;
}

void require_chunks_kept(const Schedule& schedule) {
  const Collective collective = schedule.collective;
  if (collective == Collective::all_reduce || collective == Collective::reduce ||
      collective == Collective::broadcast)
    Follow(schedule).run();
}

}  // namespace tutti::execution
