#include "execution/chunk_ranges.hpp"

#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include <tutti/error.hpp>

namespace tutti::execution {

namespace {

std::optional<ChunkRange> named(const Step& step) {
  for (const auto* operands : {&step.sources, &step.sinks})
    for (const Operand& o : *operands) {
      if (o.count == 0) return ChunkRange{};
      if (o.kind == Operand::Kind::memory && o.space != Space::scratch) return ChunkRange{o.first, o.count};
    }
  return std::nullopt;
}

using Ranges = std::vector<std::vector<ChunkRange>>;

// Runs the schedule on chunk numbers instead of data.
class Follow {
 public:
  explicit Follow(const Schedule& schedule) : schedule_(schedule), ranges_(schedule.lanes.size()) {
    for (std::size_t r = 0; r < schedule.lanes.size(); ++r) ranges_[r].resize(schedule.lanes[r].size());
  }

  Ranges run(Rank rank) {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranges_.size(); ++r)
        for (std::size_t l = 0; l < ranges_[r].size(); ++l)
          while (ranges_[r][l].size() < schedule_.lanes[r][l].size() && step(r, l)) moved = true;
    }
    return ranges_[static_cast<std::size_t>(rank)];
  }

 private:
  bool step(std::size_t r, std::size_t l) {
    const Step& step = schedule_.lanes[r][l][ranges_[r][l].size()];
    for (const Operand& o : step.sources)
      if (o.kind == Operand::Kind::message && fifos_[{o.rank, static_cast<Rank>(r), o.channel}].empty())
        return false;
    std::optional<ChunkRange> range = named(step);
    for (const Operand& o : step.sources) {
      if (o.kind == Operand::Kind::message) {
        auto& fifo = fifos_[{o.rank, static_cast<Rank>(r), o.channel}];
        if (!range) range = fifo.front();
        fifo.pop_front();
      } else if (!range) {
        range = scratch_[{static_cast<Rank>(r), o.first}];
      }
    }
    if (!range)
      throw Error(ErrorCode::invalid_schedule, "schedule " + schedule_.name + ": a step is about no chunk");
    for (const Operand& o : step.sinks) {
      if (o.kind == Operand::Kind::message)
        fifos_[{static_cast<Rank>(r), o.rank, o.channel}].push_back(*range);
      else if (o.space == Space::scratch)
        scratch_[{static_cast<Rank>(r), o.first}] = *range;
    }
    ranges_[r][l].push_back(*range);
    return true;
  }

  const Schedule& schedule_;
  std::vector<Ranges> ranges_;
  std::map<std::tuple<Rank, Rank, int>, std::deque<ChunkRange>> fifos_;
  std::map<std::pair<Rank, std::int32_t>, ChunkRange> scratch_;
};

}  // namespace

std::vector<std::vector<ChunkRange>> chunk_ranges(const Schedule& schedule, Rank rank) {
  Ranges ranges;
  for (const Lane& lane : schedule.lanes[static_cast<std::size_t>(rank)]) {
    auto& out = ranges.emplace_back();
    for (const Step& step : lane) {
      const auto range = named(step);
      if (!range) return Follow(schedule).run(rank);
      out.push_back(*range);
    }
  }
  return ranges;
}

}  // namespace tutti::execution
