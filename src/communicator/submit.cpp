// From a call to a task under way.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

#include "base/mappings.hpp"
#include "collectives/algorithms.hpp"
#include "communicator/impl.hpp"
#include "kernels/fold.hpp"

namespace tutti::detail {

namespace {

constexpr transport::Tag mix(std::uint64_t a, std::uint64_t b) {
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

// What shorter buffers cost to put there takes long to come in.
constexpr std::size_t worth_huge_pages = std::size_t{256} << 10U;

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
  if (abort_requested.load(std::memory_order_acquire))
    throw Error(ErrorCode::aborted, "the communicator was aborted: " + abort_reason, {group.rank});
  throw Error(ErrorCode::aborted, "the communicator is unusable since it failed: " + failed_text);
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
  task.tag = mix(mix(bytes_of_message(task.call), static_cast<std::uint64_t>(task.call.type)), task.sequence);
  if (task.sizes.in_bytes >= worth_huge_pages && read_by_attach(task.call)) use_huge_pages(task);
}

inline void Impl::take_number(Task& task) {
  task.sequence = ++sequence;
  // All calls so far: after one that differed, no later one matches either.
  history = mix(task.plan->hash + static_cast<std::uint32_t>(task.call.within),
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

// Of a rank that decides by itself how it stores what comes through slots. What all of them time, it does as
// it decided.
PathTrial::Turn Impl::own_turn(const Plan& plan, const PathTrial::Turn& of_all) {
  if (plan.own_trial == nullptr || of_all.path != Path::slots || of_all.decides) return {};
  if (of_all.timed) return {.path = plan.own_trial->path(plan.own_presumed)};
  PathTrial::Turn turn = plan.own_trial->next(plan.own_presumed);
  if (!turn.decides) return turn;
  const PathTrial::Times times = plan.own_trial->times();
  plan.own_trial->decide({&times, 1});
  return {.path = plan.own_trial->path(plan.own_presumed)};
}

void Impl::use_huge_pages(const Task& task) {
  constexpr std::uint32_t uses = PathTrial::of_long_calls.first_gap;
  const Call& call = task.call;
  if (!options.huge_pages || (group.size > 2 && reducing(call.operation))) return;  // attach is slower there
  std::size_t left = ReusedBuffers::most_a_call;  // a v-form may have many blocks
  const auto prepare = [&](const void* data, std::size_t bytes) {
    if (bytes < worth_huge_pages) return;
    const auto part = read_by_peers.due(data, bytes, uses, left);
    left -= part.size();
    if (!part.empty() && host_buffers.plain(call, task.sizes)) put_into_huge_pages(part.data(), part.size());
  };
  if (task.sizes.in_bytes < worth_huge_pages) return;
  for (const auto& part : read_of_input(call, task.sizes, group.rank, group.size))
    prepare(static_cast<const std::byte*>(call.in) + part.offset, part.bytes);
  if (call.operation == Operation::all_reduce) prepare(call.out, task.sizes.out_bytes);
}

// Not before all calls before it are done, which may decide by which way it goes.
void Impl::begin(Task& task) {
  task.begun = true;
  const auto& plan = task.plan;
  if (plan == nullptr) {
    task.buffers = {static_cast<const std::byte*>(task.call.in), static_cast<std::byte*>(task.call.out)};
    task.execution.begin(*task.point_to_point, task.buffers, task.tag);
    return;
  }
  if (plan->attached) use_huge_pages(task);
  if (plan->trial) task.turn = plan->trial->next(plan->presumed);
  task.own_turn = own_turn(*plan, task.turn);
  const bool timed = task.turn.timed || task.own_turn.timed;
  if (timed && (task.turn.path != Path::slots || task.own_turn.path != Path::slots))
    for (const auto* program : {&plan->mapped, &plan->attached, &plan->past_caches})
      if (*program) (void)(*program)->get(task.call);  // not part of the time
  if (timed) task.since = Clock::now();
  if (!plan->asks && task.turn.path != Path::direct && !task.turn.decides) {
    begin_main(task);
    return;
  }
  offer(task);
}

// `each`: another offer for each rank.
const execution::Program& Impl::offer_program(bool each) {
  auto& program = offer_programs[each ? 1 : 0];
  if (program != nullptr) return *program;
  execution::Shape shape;
  for (int r = 0; r < group.size; ++r)
    shape.output.push_back(
        {static_cast<std::size_t>(r) * sizeof(OfferedMemory::Offer), sizeof(OfferedMemory::Offer)});
  shape.input = each ? shape.output : std::vector{shape.output[0]};
  execution::LowerSettings settings;
  settings.piece = settings.max_message = 4096;
  const Schedule schedule = each ? find_algorithm(Collective::all_to_all, "pairwise")->make(group.size, 0)
                                 : find_algorithm(Collective::all_gather, "all_pairs")->make(group.size, 0);
  program = std::make_unique<execution::Program>(
      execution::lower(schedule, execution::overview_of(schedule), group.rank, shape, settings, *routes));
  return *program;
}

// Tells all ranks where this one's buffers are; of v-forms, whose ranks do not know each other's
// displacements, each of them where its block is.
void Impl::offer(Task& task) {
  const Plan& plan = *task.plan;
  const Call& call = task.call;
  auto& direct = shm->direct();
  // What CUDA has mapped, another process may be unable to read.
  const bool by_messages = plan.by_messages() || !host_buffers.plain(call, task.sizes);
  const bool each = !plan.counts.empty();
  OfferedMemory::Offer whole;
  whole.input = direct.offer(call.in, task.sizes.in_bytes);
  if (!each) whole.output = direct.offer(call.out, task.sizes.out_bytes);
  whole.reach = by_messages ? transport::shm::Reach::none
                            : std::max(direct.reach(whole.input), direct.reach(whole.output));
  if (whole.reach == transport::shm::Reach::attach && !direct.may_still_attach())
    whole.reach = transport::shm::Reach::none;
  if (task.turn.decides) whole.times = plan.trial->times();
  task.peers.mine.assign(each ? static_cast<std::size_t>(group.size) : 1, whole);
  if (each && call.operation != Operation::all_gather_v) {
    const auto blocks = shape_of(call, group.rank, group.size).input;
    for (std::size_t r = 0; r < blocks.size(); ++r)
      task.peers.mine[r].input =
          direct.offer(static_cast<const std::byte*>(call.in) + blocks[r].offset, blocks[r].bytes);
  }
  task.peers.offers.resize(static_cast<std::size_t>(group.size));
  task.offering = true;
  task.execution.begin(offer_program(each),
                       {reinterpret_cast<const std::byte*>(task.peers.mine.data()),
                        reinterpret_cast<std::byte*>(task.peers.offers.data()), nullptr, nullptr},
                       task.tag);
}

// What others offer of an all_to_all_v must be as long as this rank expects: no message tells its size.
void Impl::check_offered(const Task& task) const {
  if (task.call.operation != Operation::all_to_all_v) return;
  for (std::size_t r = 0; r < task.peers.offers.size(); ++r)
    if (task.peers.offers[r].input.bytes != task.call.out_counts[r] * size_of(task.call.type))
      throw sizes_differ(task, static_cast<Rank>(r));
}

void Impl::decide(Task& task) {
  std::vector<PathTrial::Times> times;
  for (const auto& offer : task.peers.offers) times.push_back(offer.times);
  task.plan->trial->decide(times);
  task.turn.path = task.plan->trial->path(task.plan->presumed);
}

void Impl::copy_input(Task& task) const {
  const Plan& plan = *task.plan;
  const Call& call = task.call;
  const std::byte* const input = task.buffers.input;
  kernels::FoldModifiers modifiers;
  modifiers.scaled_sources = plan.key.scaled ? 1 : 0;
  modifiers.factor = call.reduction.factor;
  const auto parts = read_of_input(call, task.sizes, group.rank, group.size);
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.bytes;
  task.input_copy.resize(bytes);
  std::byte* to = task.input_copy.data();
  for (const auto& part : parts) {
    const std::byte* const from = input + part.offset;
    kernels::fold_for(call.type, plan.key.op)({&to, 1}, {&from, 1}, part.bytes / size_of(call.type),
                                              modifiers);
    to += part.bytes;
  }
  task.buffers.input = task.input_copy.data();
}

// A user's schedule may want any number of chunks.
void Impl::make_scratch(Task& task, std::uint64_t bytes) const {
  if (task.scratch.size() >= bytes) return;
  try {
    task.scratch.resize(bytes);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::system,
                fmt::format("there is no memory for the scratch of schedule {}, {} bytes here",
                            task.plan->name, bytes),
                {group.rank});
  }
}

void Impl::begin_main(Task& task) {
  const Plan& plan = *task.plan;
  const execution::Program* program = nullptr;  // on the memory of others
  if (task.offering) {
    task.offering = false;
    check_offered(task);
    const auto reach = task.peers.resolve(shm->direct());
    if (task.turn.decides) decide(task);
    const bool direct = task.turn.path == Path::direct;
    if (reach == transport::shm::Reach::mapped && plan.mapped && (direct || plan.asks))
      program = &plan.mapped->get(task.call);
    else if (reach != transport::shm::Reach::none && direct && plan.attached &&
             (task.turn.measured || plan.attach_first))
      program = &plan.attached->get(task.call);
  }
  task.on_others = program != nullptr;
  const bool past_caches = task.turn.path == Path::past_caches || task.own_turn.path == Path::past_caches;
  if (!task.on_others) program = past_caches ? &plan.past_caches->get(task.call) : &plan.program;
  make_scratch(task, program->scratch_bytes);
  task.buffers = {static_cast<const std::byte*>(task.call.in), static_cast<std::byte*>(task.call.out),
                  task.scratch.data(), task.on_others ? &task.peers : nullptr};
  if (plan.copies_input && !task.on_others) copy_input(task);
  task.execution.begin(*program, task.buffers, task.tag);
}

// On buffers of others, which their owners may free as soon as one of them has failed.
bool Impl::advance_on_others(Task& task) {
  if (!shm->direct().enter()) return false;
  struct Leave {
    transport::shm::DirectMemory& memory;
    ~Leave() { memory.leave(); }
  } const leave{shm->direct()};
  const bool moved = task.execution.advance();
  if (moved) shm->direct().tell_step();
  return moved;
}

// It has run what it began.
void Impl::go_on(Task& task) {
  if (task.offering) {
    begin_main(task);
    return;
  }
  task.done = true;
  count_done(task.call);
  bytes_direct += task.execution.take_bytes_direct();
  if (task.plan == nullptr) ++tickets(task.call).served;
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
