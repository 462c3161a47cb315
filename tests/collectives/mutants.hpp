/// \file
/// Schedules with random edits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>

#include <tutti/schedule.hpp>

namespace tutti::test {

using Random = std::mt19937;

inline std::size_t below(Random& random, std::size_t n) { return n == 0 ? 0 : random() % n; }

inline void mutate(Operand& operand, const Schedule& schedule, Random& random) {
  const auto some = [&](int most) {
    return static_cast<int>(below(random, static_cast<std::size_t>(most) + 1));
  };
  switch (below(random, 6)) {
    case 0:
      operand.rank = some(schedule.ranks) - 1;
      break;
    case 1:
      operand.first = some(std::max(schedule.chunks, schedule.scratch));
      break;
    case 2:
      operand.channel = static_cast<std::uint16_t>(some(4));
      break;
    case 3:
      operand.space = static_cast<Space>(some(2));
      break;
    case 4:
      operand.count = some(2);
      break;
    default:
      operand = some(1) == 0 ? in(some(schedule.chunks)) : message(some(schedule.ranks), some(2));
      break;
  }
}

inline void mutate(Schedule& schedule, Random& random) {
  auto& lanes = schedule.lanes[below(random, schedule.lanes.size())];
  if (lanes.empty()) return;
  Lane& lane = lanes[below(random, lanes.size())];
  if (lane.empty()) return;
  const std::size_t at = below(random, lane.size());
  const auto here = lane.begin() + static_cast<std::ptrdiff_t>(at);
  auto& operands = below(random, 2) == 0 ? here->sources : here->sinks;
  switch (below(random, 9)) {
    case 0:
      lane.erase(here);
      break;
    case 1:
      lane.insert(here, Step(lane[at]));
      break;
    case 2:
      std::swap(lane[at], lane[below(random, lane.size())]);
      break;
    case 3:
      here->complete = !here->complete;
      break;
    case 4:
      if (!operands.empty())
        operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(below(random, operands.size())));
      break;
    case 5:
      if (!operands.empty()) operands.push_back(operands[below(random, operands.size())]);
      break;
    case 6: {
      const Step step = lane[at];
      lane.erase(here);
      Lane& other = lanes[below(random, lanes.size())];
      other.insert(other.begin() + static_cast<std::ptrdiff_t>(below(random, other.size() + 1)), step);
      break;
    }
    default:
      if (!operands.empty()) mutate(operands[below(random, operands.size())], schedule, random);
      break;
  }
}

}  // namespace tutti::test
