// From a call to a task that has its place among the others.
#include <algorithm>
#include <cassert>

#include "communicator/impl.hpp"

namespace tutti::detail {

namespace {

constexpr transport::Tag tag_of(std::uint64_t a, std::uint64_t b) {
  std::uint64_t h = (a ^ b * 0xD6E8FEB86659FD93ULL) * 0x9E3779B97F4A7C15ULL;
  return static_cast<transport::Tag>((h ^ (h >> 32)) >> 16);
}

// Collectives, sends and receives are admitted apart.
std::size_t kind_of(const Call& call) {
  return call.operation == Operation::send ? 1 : call.operation == Operation::receive ? 2 : 0;
}

// Where a communicator remembers the call.
std::size_t place_of(const Call& call) {
  const auto number = [](const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); };
  const std::uint64_t h = number(call.in) + 3 * number(call.out) +
                          5 * static_cast<std::uint64_t>(call.operation) +
                          7 * static_cast<std::uint64_t>(call.root);
  return h * 0x9E3779B97F4A7C15ULL >> 56;
}

int channel_of(const Call& call) {
  return call.within == Within::nothing ? transport::message_channel : transport::meeting_channel;
}

// A send or receive of any length: one instruction, once a piece.
execution::Program message_program(const Call& call, execution::Channels& channels, std::size_t piece,
                                   bool stable) {
  const int channel = channel_of(call);
  execution::Program program;
  execution::Instruction instruction;
  instruction.sources = instruction.sinks = 1;
  instruction.bytes = bytes_of_message(call);
  execution::Source source;
  execution::Sink sink;
  if (call.operation == Operation::send) {
    instruction.kind = execution::Instruction::Kind::send;
    sink.sender = &channels.sender(call.root, channel);
    sink.peer = call.root;
  } else {
    instruction.kind = execution::Instruction::Kind::receive;
    source.receiver = &channels.receiver(call.root, channel);
    source.peer = call.root;
    sink.base = execution::Base::output;
  }
  program.sources = {source};
  program.sinks = {sink};
  program.piece = program.stride = program.message_bytes = piece;
  program.flushes = call.operation == Operation::send;  // the buffer belongs to the call until it is done
  program.stable = program.flushes && stable;
  program.lanes.resize(1);
  program.lanes[0].push_back(
      {{instruction}, std::max<std::uint64_t>(1, (instruction.bytes + piece - 1) / piece)});
  program.brief = instruction.bytes <= std::min(piece, execution::brief_message);
  return program;
}

}  // namespace

// Thrown when the communicator cannot be used.
void Impl::refuse() const {
  if (tutti::fork_generation() != fork_generation)
    throw Error(ErrorCode::forked,
                "this communicator belongs to the parent process; make a new one in the child");
  std::string why;
  if (abort_requested.load(std::memory_order_acquire)) {
    why = "the communicator was aborted: " + abort_reason;
    if (!failed_before_abort) throw Error(ErrorCode::aborted, why, {group.rank});
    if (abort_reason != failed_text) why += "; before, it failed: " + failed_text;
  } else {
    why = "the communicator is unusable since it failed: " + failed_text;
  }
  throw Error(ErrorCode::aborted, why, failed_ranks);
}

Sizes Impl::admit(const Call& call) {
  ensure_usable();
  auto& [before, sizes] = admitted[kind_of(call)];
  if (!has_counts(call) && same_but_counts(call, before)) [[likely]]
    return sizes;
  const Sizes found = check(call, group.rank, group.size);
  host_buffers.require_reachable(call, found);
  if (has_counts(call)) return found;
  before = call;
  return sizes = found;
}

// On this host what CUDA has mapped is copied: another process may be unable to read it.
const std::shared_ptr<const execution::Program>& Impl::point_to_point_program(const Call& call,
                                                                              const Sizes& sizes) {
  const MessageKey key{call.operation, call.within, call.root, bytes_of_message(call),
                       host_buffers.plain(call, sizes)};
  const auto found = std::find_if(point_to_point_programs.begin(), point_to_point_programs.end(),
                                  [&](const auto& p) { return p.first == key; });
  if (found != point_to_point_programs.end()) return found->second;
  if (point_to_point_programs.size() >= 64) point_to_point_programs.clear();
  const transport::Transport& route = routes->to(call.root);
  const bool whole = route.cuts_messages() && channel_of(call) == transport::message_channel;
  const std::size_t piece = whole ? std::max<std::size_t>(key.bytes, 1)
                                  : std::min(route.max_message_bytes(), planner->setting().max_message);
  point_to_point_programs.emplace_back(key, std::make_shared<const execution::Program>(
                                                message_program(call, *routes, piece, key.plain || !whole)));
  return point_to_point_programs.back().second;
}

// The counts, too, are those of the call before. They may lie elsewhere.
bool Impl::adopts_counts(Task& task, const Call& call) {
  if (task.plan == nullptr || !same_counts(task.plan->counts, call)) return false;
  task.call = call;
  return true;
}

// Connects to peers that no call has needed so far.
Impl::Found Impl::find_plan(const Call& call, const Sizes& sizes) {
  const auto failed_by_it = [&] {
    Task unplanned;
    unplanned.call = call;
    unplanned.sequence = (is_point_to_point(call) ? tickets(call).given : sequence) + 1;
    return fail(&unplanned);
  };
  try {
    if (is_point_to_point(call)) return {nullptr, &point_to_point_program(call, sizes)};
    return {&planner->plan(call, sizes), nullptr};
  } catch (const Error& error) {
    // Refused: nothing was sent, and the communicator stays usable.
    if (error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::invalid_schedule) throw;
    std::rethrow_exception(failed_by_it());
  } catch (...) {
    std::rethrow_exception(failed_by_it());
  }
}

void Impl::take_plan(Task& task, const Call& call, const Sizes& sizes, const Found& found) {
  const auto take = [](auto& to, const auto* from) {
    if (from == nullptr)
      to = nullptr;
    else if (to != *from)
      to = *from;
  };
  take(task.plan, found.plan);
  take(task.point_to_point, found.program);
  task.call = call;
  task.counted = has_counts(call);
  task.generation = planner->generation();
  task.sizes = sizes;
  task.plain = found.plain();
  task.logged = loggable(call);
}

// Admitted calls only.
void Impl::prepare(Task& task, const Call& call, const Sizes& sizes) {
  const bool again = is_ready(task, call);
  if (!again) {
    task.forget_counts();
    take_plan(task, call, sizes, find_plan(call, sizes));
  }
  issue(task, again);
}

// Whether the peer reads what is sent in this process's memory, if that is faster.
bool Impl::read_by_attach(const Call& call) const {
  return channel_of(call) == transport::message_channel && routes->to(call.root).cuts_messages() &&
         shm->direct().can_attach() && !shm->direct().same_process();
}

inline void Impl::take_ticket(Task& task) {
  task.ticket = tickets(task.call).given++;
  task.sequence = task.ticket + 1;
  task.tag =
      tag_of(tag_of(bytes_of_message(task.call), static_cast<std::uint64_t>(task.call.type)), task.sequence);
  if (task.sizes.in_bytes >= ReusedBuffers::least && read_by_attach(task.call)) use_huge_pages(task);
}

inline void Impl::take_number(Task& task) {
  task.sequence = ++sequence;
  // All calls so far: after one that differed, no later one matches either.
  history = tag_of(task.plan->hash + static_cast<std::uint32_t>(task.call.within),
                   static_cast<std::uint64_t>(history) << 32 ^ task.sequence);
  task.tag = history;
}

inline void Impl::count_in(Task& task) {
  if (task.plan == nullptr) [[unlikely]]
    take_ticket(task);
  else
    take_number(task);
  log_call(task);
}

// A plain call with the buffers that it had before.
inline void Impl::repeat(Task& task) {
  assert(task.begun);
  count_in(task);
  task.done = false;
  task.execution.begin_again(task.tag);
}

// The planned call is the next one of this communicator.
void Impl::issue(Task& task, bool again) {
  if (again && task.plain) return repeat(task);
  count_in(task);
  task.done = task.plan != nullptr && task.plan->empty;
  if (task.done) count_done(task.call);
  task.begun = task.offering = task.on_others = false;
  task.turn = task.own_turn = {};
}

// The latest first: where it is looked for depends on the call, and what is sent would have to wait for that.
inline Task* Impl::recall(const Call& call) {
  if (latest != nullptr && is_ready(*latest, call)) [[likely]]
    return latest;
  Task* const kept = remembered[place_of(call)].get();
  return kept != nullptr && is_ready(*kept, call) ? latest = kept : nullptr;
}

void Impl::record_times(const Task& task) {
  if (task.turn.timed) task.plan->trial->record(task.turn.path, Clock::now() - task.since);
  if (task.own_turn.timed) task.plan->own_trial->record(task.own_turn.path, Clock::now() - task.since);
}

void Impl::run(const Call& call) {
  Task* const task = recall(call);
  if (task == nullptr || queued(call)) return run_anew(call);
  ensure_usable();
  try {
    repeat(*task);
    wait_direct(*task);
  } catch (...) {
    std::rethrow_exception(fail(task));
  }
}

void Impl::run_anew(const Call& call) {
  const bool again = is_ready(*blocking, call);
  Sizes sizes;
  if (again)
    ensure_usable();
  else
    sizes = admit(call);
  if (is_point_to_point(call) && call.root == group.rank)
    throw Error(ErrorCode::invalid_argument,
                describe(call) + " to oneself needs the matching call in the same group");
  if (queued(call)) {
    const auto pending = start({&call, 1});
    wait(*pending, std::nullopt);
    return;
  }
  Task& task = again ? *blocking : planned(call, sizes);
  try {
    issue(task, again);
    wait_direct(task);
    record_times(task);
  } catch (...) {
    std::rethrow_exception(fail(&task));
  }
}

// Long calls share one task: what it holds of their data is as long as they are.
Task& Impl::planned(const Call& call, const Sizes& sizes) {
  auto& place = remembered[place_of(call)];
  if (has_counts(call)) {
    blocking->forget_counts();
    if (place != nullptr) place->forget_counts();
  }
  const Found found = find_plan(call, sizes);
  if (found.brief() && place == nullptr) place = std::make_unique<Task>();
  Task& task = found.brief() ? *place : *blocking;
  take_plan(task, call, sizes, found);
  return task;
}

}  // namespace tutti::detail
