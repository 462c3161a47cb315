// Which chunks each step is about, found by following messages.
#include "execution/chunk_ranges.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/algorithms.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

using execution::ChunkRange;
using RangesOfLanes = std::vector<std::vector<ChunkRange>>;

// The same the long way: over all lanes again and again until none can go on.
class PlainFollow {
 public:
  explicit PlainFollow(const Schedule& schedule) : schedule_(schedule), ranges_(schedule.lanes.size()) {
    for (std::size_t r = 0; r < ranges_.size(); ++r) {
      ranges_[r].resize(schedule.lanes[r].size());
      scratch_.emplace_back(static_cast<std::size_t>(schedule.scratch));
    }
  }

  std::vector<RangesOfLanes> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranges_.size(); ++r)
        for (std::size_t l = 0; l < ranges_[r].size(); ++l) moved = step(r, l) || moved;
    }
    return ranges_;
  }

 private:
  bool step(std::size_t r, std::size_t l) {
    const Lane& lane = schedule_.lanes[r][l];
    auto& done = ranges_[r][l];
    if (done.size() == lane.size()) return false;
    const Step& step = lane[done.size()];
    const auto me = static_cast<Rank>(r);
    for (const Operand& o : step.sources)
      if (o.kind == Operand::Kind::message && fifos_[{o.rank, me, o.channel}].empty()) return false;
    ChunkRange range;
    for (const Operand& o : step.sources) range = taken(r, o);
    for (const Operand& o : step.sinks)
      if (o.kind == Operand::Kind::memory && o.space != Space::scratch) range = {o.first, o.count};
    if (range.count == 0) range = {};
    for (const Operand& o : step.sinks) {
      if (o.kind == Operand::Kind::message)
        fifos_[{me, o.rank, o.channel}].push_back(range);
      else if (o.space == Space::scratch)
        for (std::int32_t i = 0; i < o.count; ++i)
          scratch_[r].at(static_cast<std::size_t>(o.first + i)) = range.first + i;
    }
    done.push_back(range);
    return true;
  }

  ChunkRange taken(std::size_t r, const Operand& o) {
    if (o.kind == Operand::Kind::message) {
      auto& fifo = fifos_[{o.rank, static_cast<Rank>(r), o.channel}];
      const ChunkRange range = fifo.front();
      fifo.pop_front();
      return range;
    }
    if (o.space != Space::scratch || o.count == 0) return {o.first, o.count};
    return {scratch_[r].at(static_cast<std::size_t>(o.first)), o.count};
  }

  const Schedule& schedule_;
  std::vector<RangesOfLanes> ranges_;
  std::map<std::tuple<Rank, Rank, int>, std::deque<ChunkRange>> fifos_;
  std::vector<std::vector<std::int32_t>> scratch_;
};

TEST(ChunkRanges, AreThoseFoundByGoingOverAllLanes) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.one_sided) continue;
    if (algorithm.collective != Collective::all_reduce && algorithm.collective != Collective::reduce &&
        algorithm.collective != Collective::broadcast)
      continue;
    for (int ranks = 1; ranks <= (sanitized ? 6 : 13); ++ranks) {
      const bool rooted = algorithm.collective != Collective::all_reduce;
      const Schedule schedule = algorithm.make(ranks, rooted ? ranks / 2 : 0);
      const auto expected = PlainFollow(schedule).run();
      for (Rank r = 0; r < ranks; ++r)
        EXPECT_EQ(execution::chunk_ranges(schedule, r), expected[static_cast<std::size_t>(r)])
            << schedule.name << ", rank " << r << " of " << ranks;
    }
  }
}

// Each rank awaits the one behind it: whoever looks at all lanes anew for each message does not come to an
// end.
TEST(ChunkRanges, OfAChainAgainstTheOrderOfRanks) {
  constexpr int ranks = sanitized ? 20'000 : 100'000;
  Schedule chain;
  chain.name = "chain";
  chain.collective = Collective::broadcast;
  chain.root = ranks - 1;
  chain.ranks = ranks;
  chain.chunks = 1;
  for (Rank r = 0; r < ranks; ++r) {
    Step step;
    step.sources.push_back(r == ranks - 1 ? in(0) : message(r + 1));
    step.sinks.push_back(r == 0 ? out(0) : message(r - 1));
    chain.lanes.push_back(std::vector<Lane>{Lane{step}});
  }
  EXPECT_EQ(execution::chunk_ranges(chain, 1), RangesOfLanes(1, std::vector{ChunkRange{0, 1}}));
}

}  // namespace
}  // namespace tutti::test
