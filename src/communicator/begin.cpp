// What a task does once it is its turn: the way that it goes, and what that needs of the other ranks.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <vector>

#include "base/mappings.hpp"
#include "collectives/algorithms.hpp"
#include "communicator/impl.hpp"
#include "kernels/fold.hpp"

namespace tutti::detail {

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
  constexpr std::uint32_t uses = PathTrial::of_long_calls.first_gap / 2;
  const Call& call = task.call;
  if (!options.huge_pages || (group.size > 2 && reducing(call.operation))) return;  // attach is slower there
  std::size_t left = ReusedBuffers::most_a_call;  // a v-form may have many blocks
  const auto prepare = [&](const void* data, std::size_t bytes) {
    if (bytes < ReusedBuffers::least) return;
    const auto part = reached_by_peers.due(data, bytes, uses, left);
    left -= part.size();
    if (!part.empty() && host_buffers.plain(call, task.sizes)) put_into_huge_pages(part.data(), part.size());
  };
  if (task.plan != nullptr && task.plan->attached_writes) return prepare(call.out, task.sizes.out_bytes);
  if (task.sizes.in_bytes < ReusedBuffers::least) return;
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

OfferedMemory::Offer Impl::own_buffers(const Plan& plan, const Call& call, const Sizes& sizes) {
  auto& direct = shm->direct();
  OfferedMemory::Offer mine;
  mine.input = direct.offer(call.in, sizes.in_bytes);
  if (plan.counts.empty()) mine.output = direct.offer(call.out, sizes.out_bytes);
  // What CUDA has mapped, another process may be unable to read.
  if (plan.by_messages() || !host_buffers.plain(call, sizes))
    mine.reach = transport::shm::Reach::none;
  else
    mine.reach = std::max(direct.reach(mine.input), direct.reach(mine.output));
  if (mine.reach == transport::shm::Reach::attach && !direct.may_still_attach())
    mine.reach = transport::shm::Reach::none;
  return mine;
}

// Tells all ranks where this one's buffers are; of v-forms, whose ranks do not know each other's
// displacements, each of them where its block is.
void Impl::offer(Task& task) {
  const Plan& plan = *task.plan;
  const Call& call = task.call;
  auto& direct = shm->direct();
  const bool each = !plan.counts.empty();
  OfferedMemory::Offer whole = own_buffers(plan, call, task.sizes);
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
  const bool lent = !program->lends || plan.copies_input || host_buffers.plain(task.call, task.sizes);
  task.buffers = {static_cast<const std::byte*>(task.call.in), static_cast<std::byte*>(task.call.out),
                  task.scratch.data(), task.on_others ? &task.peers : nullptr, lent};
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

}  // namespace tutti::detail
