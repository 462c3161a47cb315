#include "collectives/passes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tutti {

namespace {

bool is_message(const Operand& operand) { return operand.kind == Operand::Kind::message; }

// Of the rank that runs the step; scratch is used again and again, and nothing may be read from it late.
bool is_callers(const Operand& operand) {
  return operand.kind == Operand::Kind::memory && operand.space != Space::scratch && operand.rank < 0;
}

void split(const Step& step, Lane& into) {
  Step store{step.sources, {}, step.complete}, send;
  for (const Operand& sink : step.sinks) (is_message(sink) ? send : store).sinks.push_back(sink);
  const auto kept = std::ranges::find_if(store.sinks, is_callers);
  if (send.sinks.empty() || kept == store.sinks.end()) {
    into.push_back(step);
  } else if (step.sources.size() == 1 && is_callers(step.sources[0]) && !step.complete) {
    send.sources = step.sources;  // without waiting for the copy
    into.push_back(std::move(send));
    into.push_back(std::move(store));
  } else {
    send.sources = {*kept};
    into.push_back(std::move(store));
    into.push_back(std::move(send));
  }
}

}  // namespace

Schedule sent_from_memory(Schedule schedule) {
  for (auto& lanes : schedule.lanes)
    for (Lane& lane : lanes) {
      Lane steps;
      steps.reserve(lane.size());
      for (const Step& step : lane) split(step, steps);
      lane = std::move(steps);
    }
  return schedule;
}

Schedule in_turn(Schedule schedule) {
  for (auto& lanes : schedule.lanes) {
    if (lanes.empty()) continue;
    Lane all;
    for (Lane& lane : lanes) std::ranges::move(lane, std::back_inserter(all));
    lanes = {std::move(all)};
  }
  return schedule;
}

}  // namespace tutti
