#include "collectives/verify/run.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "collectives/verify/shape.hpp"

namespace tutti::proof {
namespace {

bool is_message(const Operand& operand) { return operand.kind == Operand::Kind::message; }

// Some ranks may call in place and others not: what a rank reads must not depend on which it does.
void require_untouched(const Value& value, Rank owner, int chunk, int piece) {
  if (!value.holds_same(contribution(owner, chunk, piece)))
    throw Flaw{"reads an input that, in place, the output has overwritten"};
}

}  // namespace

Run::Run(const Schedule& schedule, const VerifyOptions& options, const Contract& contract, Memory& memory,
         std::size_t clock_entries)
    : schedule_(schedule),
      options_(options),
      contract_(contract),
      memory_(memory),
      credits_(static_cast<std::size_t>(options.credits > 0 ? options.credits : schedule.credits)),
      clock_entries_(clock_entries) {
  for (Rank rank = 0; rank < schedule.ranks; ++rank) {
    first_process_.push_back(static_cast<int>(processes_.size()));
    const auto& lanes = schedule.lanes[static_cast<std::size_t>(rank)];
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      ready_.push_back(static_cast<int>(processes_.size()));
      processes_.push_back({rank, static_cast<int>(lane), &lanes[lane], 0, 0, true, {}});
    }
  }
  first_process_.push_back(static_cast<int>(processes_.size()));
  const auto nothing_known = std::make_shared<SharedClock>(Clock(processes_.size(), 0), clock_entries_kept_);
  for (Process& process : processes_) process.clock = nothing_known;
}

std::optional<Fault> Run::run() {
  while (!ready_.empty()) {
    Process& process = processes_[static_cast<std::size_t>(ready_.front())];
    ready_.pop_front();
    process.queued = false;
    try {
      advance(process);
    } catch (const Flaw& flaw) {
      return Fault{flaw.what, process.rank, process.lane, static_cast<int>(process.next)};
    }
  }
  if (auto fault = deadlock()) return fault;
  if (auto fault = check_messages()) return fault;
  return check_order();
}

bool Run::ended(const Process& process) const {
  return process.next == process.steps->size() * static_cast<std::size_t>(options_.pieces);
}

const Step& Run::next_step(const Process& process) const {
  return (*process.steps)[process.next % process.steps->size()];
}

Event Run::now(const Process& process) const {
  return {static_cast<int>(&process - processes_.data()), process.next + 1};
}

Fifo& Run::fifo(const Process& process, const Operand& message, bool sends) {
  const Rank from = sends ? process.rank : message.rank;
  const Rank to = sends ? message.rank : process.rank;
  Fifo& result = fifos_[fifo_key(from, to, message.channel)];
  (sends ? result.sender : result.receiver) = now(process).lane;
  return result;
}

void Run::wake(int process) {
  if (process < 0) return;
  Process& sleeper = processes_[static_cast<std::size_t>(process)];
  if (!std::exchange(sleeper.queued, true)) ready_.push_back(process);
}

void Run::advance(Process& process) {
  while (!ended(process) && blocked_on(process) == nullptr) {
    execute(process, next_step(process));
    ++process.next;
    process.settled = 0;
  }
}

const Operand* Run::blocked_on(Process& process) {
  const Step& step = next_step(process);
  const std::size_t sources = step.sources.size();
  // What has arrived stays until this lane takes it, and room until it fills it: a step that waits for
  // thousands of messages looks at each once, not at all of them whenever one comes.
  for (std::size_t& i = process.settled; i < sources + step.sinks.size(); ++i) {
    const bool sends = i >= sources;
    const Operand& operand = sends ? step.sinks[i - sources] : step.sources[i];
    if (!is_message(operand)) continue;
    const std::size_t under_way = fifo(process, operand, sends).in_flight();
    if (sends ? under_way >= credits_ : under_way == 0) return &operand;
  }
  return nullptr;
}

void Run::execute(Process& process, const Step& step) {
  receive(process, step);
  for (const Operand& source : step.sources) touch(process, source);
  for (const Operand& sink : step.sinks) touch(process, sink);
  std::vector<Value> values = fold(process, step);
  store(process, step, values);
  publish(process, step, std::move(values));
  release(process, step);
}

void Run::receive(Process& process, const Step& step) {
  for (const Operand& source : step.sources) {
    if (!is_message(source)) continue;
    const Payload& payload = fifo(process, source, false).front();
    join(process.clock, payload);
    if (std::cmp_not_equal(payload.values.size(), source.count)) {
      throw Flaw{fmt::format("expects a message of {} chunks from rank {} and receives one of {}",
                             source.count, source.rank, payload.values.size())};
    }
    for (std::size_t i = 0; payload.view && i < payload.values.size(); ++i) {
      memory_.end_view(payload.cell + i);
      memory_.read(payload.cell + i, now(process), process.clock->steps);
    }
  }
}

void Run::join(std::shared_ptr<SharedClock>& clock, const Payload& payload) {
  const auto sender = static_cast<std::size_t>(payload.sent.lane);
  // Whoever has heard of the sending step has heard of all that the sender had heard of by then.
  if (payload.sent.time <= clock->steps[sender]) return;
  if (clock.use_count() > 1) {
    if (clock_entries_kept_ + clock->steps.size() > clock_entries_)
      throw Flaw{"too large to prove: too many messages under way among too many lanes"};
    clock = std::make_shared<SharedClock>(clock->steps, clock_entries_kept_);
  }
  Clock& steps = clock->steps;
  const Clock& heard = payload.clock->steps;
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = std::max(steps[i], heard[i]);
  steps[sender] = payload.sent.time;
}

std::vector<Value> Run::fold(Process& process, const Step& step) {
  if (step.sources.empty()) return {};
  const int piece = static_cast<int>(process.next / process.steps->size());
  std::vector<Value> values(static_cast<std::size_t>(step.sources.front().count));
  bool forwards = step.sources.size() == 1;
  for (const Operand& source : step.sources) {
    const Payload* payload = is_message(source) ? &fifo(process, source, false).front() : nullptr;
    const std::size_t cell = payload != nullptr ? 0 : memory_.at(source, process.rank, piece);
    const bool is_input = payload == nullptr && source.space == Space::input;
    const Rank owner = source.rank < 0 ? process.rank : source.rank;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Value& value = payload != nullptr ? payload->values[i]
                                              : memory_.read(cell + i, now(process), process.clock->steps);
      if (is_input) require_untouched(value, owner, source.first + static_cast<int>(i), piece);
      if (&source == step.sources.data()) {
        values[i] = value;
      } else {
        add(values[i], value);
      }
    }
  }
  for (Value& value : values) {
    if (!forwards) round(value);
  }
  check_complete(step, values, forwards);
  for (Value& value : values) value.finished = value.finished || step.complete;
  return values;
}

void Run::check_complete(const Step& step, const std::vector<Value>& values, bool forwards) const {
  for (const Value& value : values) {
    const bool whole = contract_.is_whole(value);
    const bool already = forwards && value.finished;
    if (step.complete && already) throw Flaw{"`complete` on a reduction that was completed before"};
    if (step.complete && !whole) throw Flaw{"`complete` on a fold that is not the finished reduction"};
    if (!step.complete && whole && !already)
      throw Flaw{"finishes the reduction and is not marked `complete`"};
  }
}

void Run::store(Process& process, const Step& step, const std::vector<Value>& values) {
  const int piece = static_cast<int>(process.next / process.steps->size());
  // Copying a chunk onto itself, as in-place operation does, writes nothing.
  const Operand* copied =
      step.sources.size() == 1 && !is_message(step.sources[0]) ? step.sources.data() : nullptr;
  for (const Operand& sink : step.sinks) {
    if (is_message(sink)) continue;
    const std::size_t cell = memory_.at(sink, process.rank, piece);
    if (copied != nullptr && !step.complete && memory_.at(*copied, process.rank, piece) == cell) continue;
    for (std::size_t i = 0; i < values.size(); ++i)
      memory_.write(cell + i, values[i], now(process), process.clock->steps);
  }
}

void Run::publish(Process& process, const Step& step, std::vector<Value> values) {
  const auto messages = static_cast<int>(std::count_if(step.sinks.begin(), step.sinks.end(), is_message));
  if (messages == 0) return;
  auto payload = std::make_shared<Payload>(Payload{std::move(values), now(process), process.clock, false, 0});
  const Operand* source = step.sources.size() == 1 ? step.sources.data() : nullptr;
  payload->view = options_.views && source != nullptr && !is_message(*source) &&
                  (source->rank < 0 || source->rank == process.rank);
  if (payload->view) {
    payload->cell = memory_.at(*source, process.rank, static_cast<int>(process.next / process.steps->size()));
    for (std::size_t i = 0; i < payload->values.size(); ++i) memory_.begin_view(payload->cell + i, messages);
  }
  for (const Operand& sink : step.sinks) {
    if (!is_message(sink)) continue;
    Fifo& way = fifo(process, sink, true);
    way.messages.push_back(payload);
    wake(way.receiver);
  }
}

void Run::release(Process& process, const Step& step) {
  for (const Operand& source : step.sources) {
    if (!is_message(source)) continue;
    Fifo& way = fifo(process, source, false);
    way.pop();
    wake(way.sender);
  }
}

void Run::touch(const Process& process, const Operand& operand) {
  if (is_message(operand) || operand.rank < 0 || operand.rank == process.rank) return;
  const auto owner = static_cast<std::size_t>(operand.rank);
  const auto known = process.clock->steps.begin();
  if (std::all_of(known + first_process_[owner], known + first_process_[owner + 1],
                  [](std::uint32_t steps) { return steps == 0; })) {
    throw Flaw{fmt::format("race: touches memory of rank {}, which may not have started", operand.rank)};
  }
  touched_[{operand.rank, now(process).lane}] = now(process).time;
}

}  // namespace tutti::proof
