#include "execution/overview.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tutti::execution {

namespace {

/// By channel, of one rank.
struct Multicasts {
  std::array<bool, max_channels> used{}, broken{};

  void add(const Step& step, int others) {
    std::array<int, max_channels> sent{};
    for (const Operand& o : step.sinks)
      if (o.kind == Operand::Kind::message) ++sent.at(o.channel);
    for (std::size_t c = 0; c < max_channels; ++c) {
      used[c] = used[c] || sent[c] != 0;
      broken[c] = broken[c] || (sent[c] != 0 && sent[c] != others);
    }
  }
};

}  // namespace

Overview overview_of(const Schedule& schedule) {
  Overview overview;
  const int others = schedule.ranks - 1;
  bool both_ways = false;
  std::array<bool, max_channels> used{};
  for (const auto& lanes : schedule.lanes) {
    Multicasts of_rank;
    bool receives = false;
    for (const Lane& lane : lanes)
      for (const Step& step : lane) {
        of_rank.add(step, others);
        for (const auto* operands : {&step.sources, &step.sinks})
          for (const Operand& o : *operands)
            if (o.kind == Operand::Kind::message) {
              receives = receives || operands == &step.sources;
              overview.largest_count = std::max(overview.largest_count, o.count);
            }
      }
    for (std::size_t c = 0; c < max_channels; ++c) {
      both_ways = both_ways || (receives && of_rank.used[c]);
      used[c] = used[c] || of_rank.used[c];
      overview.multicasts.push_back(others > 1 && of_rank.used[c] && !of_rank.broken[c]);
    }
  }
  overview.one_way = !both_ways && std::count(used.begin(), used.end(), true) == 1;
  overview.lone_multicast = std::count(overview.multicasts.begin(), overview.multicasts.end(), true) == 1;
  return overview;
}

}  // namespace tutti::execution
