#include "simulation/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include <tutti/error.hpp>

#include "simulation/at.hpp"

namespace tutti::simulation {

namespace {

using execution::Instruction;

// The first of those on their way, which are few.
template <typename One>
One take_first(std::vector<One>& those) {
  const One first = those.front();
  those.erase(those.begin());
  return first;
}

}  // namespace

Result given_up(double least, std::uint64_t effort) {
  Result result;
  result.finished = false;
  result.seconds = least;
  result.effort = effort;
  return result;
}

void Engine::tell(double time, What what, int which) { events_.push({time, told_++, what, which}); }

const Instruction* Engine::instruction(LaneState& lane) const {
  while (lane.part < lane.parts->size()) {
    const execution::Part& part = (*lane.parts)[lane.part];
    const Instruction& step = part.instructions[lane.step];
    if (lane.iteration == 0 || step.whole ||
        actors_[at(lane.actor)].program.length(step, lane.iteration) != 0)
      return &step;
    step_over(lane);
  }
  return nullptr;
}

void Engine::step_over(LaneState& lane) const {
  const execution::Part& part = (*lane.parts)[lane.part];
  if (++lane.step < part.instructions.size()) return;
  lane.step = 0;
  if (++lane.iteration < part.iterations) return;
  lane.iteration = 0;
  ++lane.part;
}

bool Engine::can_begin(const LaneState& lane, const Instruction& step) const {
  const Actor& actor = actors_[at(lane.actor)];
  for (std::uint32_t i = 0; i < step.sources; ++i)
    if (const int fifo = actor.sources[step.first_source + i]; fifo >= 0 && fifos_[at(fifo)].arrived == 0)
      return false;
  for (std::uint32_t i = 0; i < step.sinks; ++i)
    for (const int fifo : actor.fifos(step.first_sink + i))
      if (fifos_[at(fifo)].under_way >= fifos_[at(fifo)].cost->credits) return false;
  return true;
}

// The actor's next call, if there is one.
void Engine::call(int index, Spent cause) {
  ActorState& actor = states_[at(index)];
  if (actor.calls == calls_) return;
  cause.calls += network_.processor.call;
  for (int l = actor.first_lane; l < actor.first_lane + actor.lanes; ++l) {
    LaneState& lane = lanes_[at(l)];
    lane = {.actor = index, .parts = lane.parts, .spent = cause};
    if (instruction(lane) != nullptr) ++actor.unfinished;
  }
  if (actor.unfinished != 0) tell(now_ + network_.processor.call, What::called, index);
}

void Engine::enter(int index) {
  const ActorState& actor = states_[at(index)];
  for (int l = actor.first_lane; l < actor.first_lane + actor.lanes; ++l) consider(l, lanes_[at(l)].spent);
}

void Engine::consider(int index, const Spent& cause) {
  if (index < 0) return;
  LaneState& lane = lanes_[at(index)];
  if (!lane.waiting) return;
  const Instruction* step = instruction(lane);
  if (step == nullptr || !can_begin(lane, *step)) return;
  lane.waiting = false;
  ActorState& actor = states_[at(lane.actor)];
  if (network_.processor.serial && actor.working > 0)
    actor.line.push_back(index);
  else
    begin(index, *step, cause);
}

// What keeps the lane at a step.
Spent Engine::work(const LaneState& lane, const Instruction& step) {
  const Actor& actor = actors_[at(lane.actor)];
  RankCounts& counts = counts_[at(lane.actor)];
  const Processor& cpu = network_.processor;
  const std::size_t bytes = actor.program.length(step, lane.iteration) * step.segments;
  Spent spent{.steps = cpu.step};
  std::size_t written = 0;
  double taken = 0;  // s a byte
  for (std::uint32_t i = 0; i < step.sinks; ++i) {
    const auto fifos = actor.fifos(step.first_sink + i);
    if (fifos.empty()) {
      ++written;
      continue;
    }
    const PathCost& cost = *fifos_[at(fifos[0])].cost;
    spent.messages += cost.send_overhead;
    const bool copies =
        cost.copies && !(cost.views && actor.program.stable && step.kind == Instruction::Kind::send);
    written += copies ? 1 : 0;
    if (copies && step.kind == Instruction::Kind::send) counts.bytes_copied += bytes;
    ++counts.messages_sent;
    counts.bytes_sent += bytes;
  }
  for (std::uint32_t i = 0; i < step.sources; ++i) {
    const int fifo = actor.sources[step.first_source + i];
    if (fifo < 0) continue;
    const PathCost& cost = *fifos_[at(fifo)].cost;
    spent.messages += cost.receive_overhead;
    taken += cost.receive_byte;
    if (step.kind == Instruction::Kind::receive) counts.bytes_copied += bytes;
    ++counts.messages_received;
    counts.bytes_received += bytes;
  }
  const std::size_t folded = (step.sources > 1 ? step.sources - 1 : 0) * bytes;
  counts.bytes_folded += folded;
  spent.folds = static_cast<double>(folded) * cpu.fold;
  spent.copies = static_cast<double>(bytes) * (cpu.copy * static_cast<double>(written) + taken);
  return spent;
}

void Engine::begin(int index, const Instruction& step, const Spent& cause) {
  LaneState& lane = lanes_[at(index)];
  const Actor& actor = actors_[at(lane.actor)];
  for (std::uint32_t i = 0; i < step.sources; ++i)
    if (const int fifo = actor.sources[step.first_source + i]; fifo >= 0) --fifos_[at(fifo)].arrived;
  for (std::uint32_t i = 0; i < step.sinks; ++i)
    for (const int fifo : actor.fifos(step.first_sink + i)) ++fifos_[at(fifo)].under_way;
  const Spent spent = work(lane, step);
  const double seconds = spent.total();
  lane.spent = cause;
  lane.spent.messages += spent.messages;
  lane.spent.copies += spent.copies;
  lane.spent.folds += spent.folds;
  lane.spent.steps += spent.steps;
  counts_[at(lane.actor)].busy += seconds;
  ++states_[at(lane.actor)].working;
  tell(now_ + seconds, What::finished, index);
}

void Engine::finish(int index) {
  LaneState& lane = lanes_[at(index)];
  const Actor& actor = actors_[at(lane.actor)];
  const Instruction& step = *instruction(lane);
  const std::size_t bytes = actor.program.length(step, lane.iteration) * step.segments;
  for (std::uint32_t i = 0; i < step.sources; ++i)
    if (const int fifo = actor.sources[step.first_source + i]; fifo >= 0) {
      fifos_[at(fifo)].returning.push_back(lane.spent);
      tell(now_ + fifos_[at(fifo)].cost->alpha, What::released, fifo);
    }
  for (std::uint32_t i = 0; i < step.sinks; ++i)
    for (const int fifo : actor.fifos(step.first_sink + i)) publish(fifo, bytes, lane.spent);
  ActorState& state = states_[at(lane.actor)];
  last_[at(state.calls)] = lane.spent;
  counts_[at(lane.actor)].done = now_;
  step_over(lane);
  lane.waiting = true;
  --state.working;
  const Spent cause = lane.spent;
  if (instruction(lane) != nullptr) {
    consider(index, cause);
  } else if (--state.unfinished == 0) {
    ++state.calls;
    call(lane.actor, cause);
    return;
  }
  while (!state.line.empty() && (state.working == 0 || !network_.processor.serial)) {
    const int next = state.line.front();
    state.line.pop_front();
    begin(next, *instruction(lanes_[at(next)]), cause);
  }
}

void Engine::publish(int index, std::size_t bytes, const Spent& spent) {
  Fifo& fifo = fifos_[at(index)];
  fifo.coming.push_back({spent, static_cast<double>(bytes)});
  fifo.largest = std::max(fifo.largest, bytes);
  for (const Crossing& c : quotient_.fifos[at(index)].crossings)
    link_bytes_[at(c.link)] += c.weight * static_cast<double>(bytes);
  if (fifo.way < 0) {
    tell(now_ + fifo.cost->alpha, What::arrived, index);
    return;
  }
  if (++fifo.queued == 1) send_next(fifo, index);
}

void Engine::send_next(Fifo& fifo, int index) {
  const double bytes = fifo.coming[fifo.coming.size() - fifo.queued].bytes;
  const double volume = bytes + fifo.gap * fifo.narrowest;
  if (volume > 0) {
    flows_.begin(fifo.way, volume, now_);
    return;
  }
  sent(fifo, index);
}

void Engine::sent(Fifo& fifo, int index) {
  tell(now_ + fifo.cost->alpha, What::arrived, index);
  if (--fifo.queued > 0) send_next(fifo, index);
}

void Engine::arrive(Fifo& fifo) {
  ++fifo.arrived;
  Spent cause = take_first(fifo.coming).spent;
  cause.links += std::max(0.0, now_ - fifo.cost->alpha - cause.total());
  cause.latency += fifo.cost->alpha;
  ++cause.hops;
  consider(fifo.receiver, cause);
}

void Engine::release(Fifo& fifo) {
  --fifo.under_way;
  Spent cause = take_first(fifo.returning);
  cause.latency += fifo.cost->alpha;
  ++cause.hops;
  consider(fifo.sender, cause);
}

double Engine::bound() const {
  std::vector<double> bytes(link_bytes_.size());
  for (const LaneState& lane : lanes_)
    for (const execution::Part& part : *lane.parts)
      for (const Instruction& step : part.instructions) {
        const auto sent = static_cast<double>(step.bytes) *
                          static_cast<double>(step.whole ? part.iterations : step.segments);
        for (std::uint32_t i = 0; i < step.sinks; ++i)
          for (const int fifo : actors_[at(lane.actor)].fifos(step.first_sink + i))
            for (const Crossing& c : quotient_.fifos[at(fifo)].crossings)
              bytes[at(c.link)] += c.weight * sent;
      }
  double seconds = 0;
  for (std::size_t l = 0; l < bytes.size(); ++l)
    seconds = std::max(seconds, bytes[l] / network_.bandwidth[at(quotient_.links[l])]);
  return seconds;
}

Result Engine::run(const Limits& limits) {
  if (limits.seconds < std::numeric_limits<double>::infinity())
    if (const double least = bound(); least > limits.seconds) return given_up(least, 0);
  for (std::size_t a = 0; a < states_.size(); ++a) call(static_cast<int>(a), {});
  std::vector<int> ended;
  while (true) {
    const double told = events_.empty() ? std::numeric_limits<double>::infinity() : events_.top().time;
    // Rates change only when time moves on: what begins and ends at one time is settled together.
    const double flows = told <= now_ ? std::numeric_limits<double>::infinity() : flows_.next(now_);
    if (events_.empty() && flows == std::numeric_limits<double>::infinity()) break;
    if (std::min(told, flows) > limits.seconds) return given_up(limits.seconds, effort());
    if (effort() > limits.effort) {
      Result result = given_up(std::max(now_, bound()), effort());
      result.too_long = true;
      return result;
    }
    if (flows < told) {
      now_ = flows;
      ended.clear();
      flows_.end(now_, ended);
      for (const int way : ended) {
        const int index = fifo_of_way_[at(way)];
        sent(fifos_[at(index)], index);
      }
      continue;
    }
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    switch (event.what) {
      case What::called:
        enter(event.which);
        break;
      case What::finished:
        finish(event.which);
        break;
      case What::arrived:
        arrive(fifos_[at(event.which)]);
        break;
      case What::released:
        release(fifos_[at(event.which)]);
        break;
    }
  }
  for (LaneState& lane : lanes_)
    if (instruction(lane) != nullptr)
      throw Error(
          ErrorCode::invalid_schedule,
          fmt::format("simulation: rank {} waits for ever; the schedule needs more messages under way "
                      "than this network's FIFOs hold",
                      actors_[at(lane.actor)].rank),
          {actors_[at(lane.actor)].rank});
  return result();
}

Result Engine::result() {
  Result result;
  result.events = told_;
  result.effort = effort();
  result.spent = last_.back();
  const int half = calls_ / 2;
  result.steady = result.spent;
  result.steady.hops = 0;
  if (half > 0) result.steady -= last_[at(half - 1)];
  result.steady /= calls_ - half;
  result.representatives = quotient_.representatives;
  result.members = quotient_.members;
  result.by_rank = quotient_.by_rank;
  for (const RankCounts& counts : counts_) result.seconds = std::max(result.seconds, counts.done);
  for (std::size_t a = 0; a < counts_.size(); ++a)
    result.messages += counts_[a].messages_sent * static_cast<std::uint64_t>(quotient_.members[a]);
  for (std::size_t l = 0; l < link_bytes_.size(); ++l)
    if (link_bytes_[l] > 0)
      result.links.push_back(
          {quotient_.links[l], quotient_.links_alike[l], link_bytes_[l], flows_.busy(static_cast<int>(l))});
  busiest_first(network_, result.links);
  for (const Fifo& fifo : fifos_)
    if (fifo.receiver >= 0)
      counts_[at(lanes_[at(fifo.receiver)].actor)].buffer_bytes +=
          static_cast<std::size_t>(fifo.cost->credits) * fifo.largest;
  result.ranks = std::move(counts_);
  return result;
}

}  // namespace tutti::simulation
