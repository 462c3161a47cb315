// Waiting: move what can be moved; when nothing moves, spin, then yield, then sleep, and look around now and
// then.
#include <algorithm>
#include <utility>

#include "base/about_now.hpp"
#include "base/yield.hpp"
#include "communicator/impl.hpp"

namespace tutti::detail {

namespace {

using namespace std::chrono_literals;

// Nothing happens between looks but polls, so a loss, an abort or a deadline is noticed this much late at
// most.
constexpr auto look_interval = 1ms;
constexpr auto yield_for = 2ms;          // then sleep
constexpr unsigned spin_paired = 800;    // polls, where ranks share processors, for one that is on its own
constexpr unsigned looks_for_peer = 16;  // polls between looks whether the peer of a message runs
constexpr auto suspect_after = 20ms;     // before asking whether the ranks mean the same call
constexpr auto report_after = 100ms;     // before asking the hub whether they do

// Communicators with queued work that this thread moves, linked by `next_active`. Global ones end after what
// a thread has to destroy, so this is nothing of that.
thread_local Impl* active = nullptr;
// How often something queued has moved.
thread_local std::uint64_t movements = 0;

void activate(Impl* impl) {
  for (const Impl* one = active; one != nullptr; one = one->next_active)
    if (one == impl) return;
  impl->next_active = std::exchange(active, impl);
}

void deactivate(const Impl* impl) {
  Impl** link = &active;
  while (*link != nullptr && *link != impl) link = &(*link)->next_active;
  if (*link != nullptr) *link = impl->next_active;
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // "yield" does nothing where a core has one thread, as most have; this waits about as long as x86's pause
  // (13 ns on a Neoverse N1: Rust's spin_loop, github.com/rust-lang/rust/pull/84725).
  __asm__ __volatile__("isb" ::: "memory");
#endif
}

// nullptr: all have moved to their ends since the queues were last gone through.
const Task* first_unfinished(const Pending& pending) {
  const auto tasks = pending.tasks();
  const auto found = std::find_if(tasks.begin(), tasks.end(), [](const auto& t) { return !t->done; });
  return found == tasks.end() ? nullptr : found->get();
}

bool advance_others(const Impl* mine) {
  bool moved = false;
  for (Impl *other = active, *next = nullptr; other != nullptr; other = next) {
    next = other->next_active;  // one that finishes leaves the list
    if (other == mine) continue;
    const Impl::Leaving leaving{*other->shm};
    moved = other->advance_queues() || moved;
  }
  return moved;
}

}  // namespace

bool advance_queued() { return advance_others(nullptr); }

Impl::~Impl() {
  // Whoever was released by an abort may be here before that has told the others.
  if (fork_generation == tutti::fork_generation()) {
    const std::lock_guard lock(abort_under_way);
  }
  end_windows();
  const auto may_be_read = [](const Queued& queued) {
    return queued.task->begun && !queued.task->done && queued.task->call.operation == Operation::send;
  };
  if (!collectives.empty() || std::any_of(point_to_point.begin(), point_to_point.end(), may_be_read))
    close_buffers();
  end_queued([this](const Task& task) {
    try {
      throw Error(ErrorCode::aborted, title(task) + ": the communicator was destroyed before this was done");
    } catch (const std::exception&) {  // that, or there was no memory for it
      return std::current_exception();
    }
  });
}

void Impl::end_queued(const std::function<std::exception_ptr(const Task&)>& why) {
  const auto end = [&](const Queued& queued) {
    Pending& work = *queued.work;
    if (work.unfinished != 0 && !work.failure) work.failure = why(*queued.task), work.owner = nullptr;
  };
  std::ranges::for_each(collectives, end);
  std::ranges::for_each(point_to_point, end);
  collectives.clear();
  point_to_point.clear();
  deactivate(this);
}

void Impl::enqueue(const std::shared_ptr<Pending>& work) {
  for (const auto& task : work->tasks()) {
    if (task->done) continue;
    ++work->unfinished;
    if (task->plan == nullptr)
      point_to_point.push_back({work, task.get()});
    else
      collectives.push_back({work, task.get()});
  }
  if (work->unfinished == 0) {
    work->owner = nullptr;
    return;
  }
  activate(this);
  const Leaving leaving{*shm};
  advance_queues();
  advance_others(this);
}

bool Impl::advance(const Queued& queued) {
  const bool moved = advance(*queued.task);
  if (moved) ++movements, ++movements_of_queues;
  if (!queued.task->done) return moved;
  queued.task->give_back();
  if (--queued.work->unfinished == 0) queued.work->owner = nullptr;
  return moved;
}

std::uint64_t Impl::parts_until_now() const {
  return shm->parts_taken() + (tcp == nullptr ? 0 : tcp->moved());
}

// What others do in each other's buffers puts off deadlines only: nothing of it arrives here.
Movements Impl::movements_until_now() const {
  Movements all{movements + shm->steps_on_others(), movements_of_queues + parts_until_now()};
  for (const Impl* one = active; one != nullptr; one = one->next_active)
    if (one != this) all.of_thread += one->parts_until_now() + one->shm->steps_on_others();
  return all;
}

// What lanes have handed over may still be on its way into a socket, and what has come over RDMA is not seen
// before.
void Impl::move_networks() {
  if (tcp != nullptr) tcp->progress();
  if (verbs != nullptr) verbs->progress();
}

// True when something moved. Failures go to all who wait.
bool Impl::advance_queues() {
  bool moved = false;
  const Task* current = nullptr;
  try {
    if (!collectives.empty() || !point_to_point.empty()) {
      current = (collectives.empty() ? point_to_point.front() : collectives.front()).task;
      ensure_usable();
      move_networks();
    }
    while (!collectives.empty()) {
      current = collectives.front().task;
      moved = advance(collectives.front()) || moved;
      if (!current->done) break;
      collectives.pop_front();
    }
    for (const Queued& queued : point_to_point) {
      current = queued.task;
      // One that is done went on while its members were checked.
      if (current->done || is_next(*current)) moved = advance(queued) || moved;
    }
    std::erase_if(point_to_point, [](const Queued& queued) { return queued.task->done; });
  } catch (...) {
    fail(current);
    return true;
  }
  if (collectives.empty() && point_to_point.empty()) deactivate(this);
  return moved;
}

// `unfinished` is a task that is not done and may move, nullptr when there is none.
template <class Advance, class Unfinished>
void Impl::wait_until_done(Advance advance, Unfinished unfinished) {
  const Leaving leaving{*shm};
  Wait wait;
  bool moved = false;
  while (Task* const task = unfinished()) {
    // It may go on for long without a pause, and ranks of other hosts wait for this one.
    if (moved) move_networks();
    moved = advance();
    for (unsigned left = looks_a_poll; !moved && --left != 0;) moved = advance();
    bool others_moved = false;
    if (active != nullptr) [[unlikely]] {
      // What the queues of this communicator meet is thrown here, not only kept for their owners.
      moved = advance_queues() || moved;
      if (failed) std::rethrow_exception(failed);
      others_moved = advance_others(this);
    }
    if (moved) {
      wait.moved();
      if (unusable.load(std::memory_order_acquire)) [[unlikely]]
        ensure_usable();
    } else if (others_moved) {
      wait.others_moved();
      // They may go on for long, and this rank's peers wait for it, or sleep until they are told.
      shm->progress();
      move_networks();
      look_now_and_then(wait, *task, about_now());
    } else {
      idle(wait, *task);
    }
  }
}

void Impl::wait_direct(Task& task) {
  if (active == nullptr) [[likely]] {
    advance(task);
    if (task.done) return shm->progress();
  }
  wait_longer(task);
}

void Impl::wait_longer(Task& task) {
  wait_until_done([&] { return advance(task); }, [&] { return task.done ? nullptr : &task; });
}

// Collectives one after the other, sends and receives side by side.
void Impl::wait_together(std::span<const std::unique_ptr<Task>> tasks, const Task*& current) {
  const auto advance_all = [&] {
    const Task* const waited_for = current;
    bool moved = false, under_way = false;  // a collective is
    for (const auto& task : tasks) {
      const bool collective = task->plan != nullptr;
      if (task->done || (collective ? under_way : !is_next(*task))) continue;
      current = task.get();
      moved = advance(*task) || moved;
      under_way = under_way || (collective && !task->done);
    }
    current = waited_for;  // they met nothing
    return moved;
  };
  wait_until_done(advance_all, [&]() -> Task* {
    for (const auto& task : tasks)
      if (!task->done) return current = task.get(), task.get();
    return nullptr;
  });
}

void Impl::wait(Pending& pending, std::optional<Deadline> limit) {
  const Leaving leaving{*shm};
  Wait wait;
  // What was waited before counts, too.
  if (pending.known != Clock::time_point{}) {
    const auto now = about_now();
    pending.still(now, movements_until_now());
    wait.since = now - pending.idle;
    wait.stuck = now - pending.stuck;
    wait.checked = std::max(pending.looked, now - look_interval);  // what passed since has been counted
    wait.movements = pending.movements;
    wait.reported = pending.reported;
  }
  while (!is_over(pending)) {
    bool moved = advance_queues();
    for (unsigned left = looks_a_poll; !moved && !is_over(pending) && --left != 0;) moved = advance_queues();
    if (is_over(pending)) return;
    const bool others_moved = advance_others(this);
    if (moved) {
      wait.moved();
      pending.moved();
    } else if (others_moved) {
      wait.others_moved();
      pending.others_moved();
    }
    if (limit && limit->passed()) {
      const auto now = about_now();
      if (wait.stuck != Clock::time_point{}) {
        const auto looked = wait.checked;
        wait.look(now);
        look_for_parts(wait, now);
        pending.idle = wait.since == Clock::time_point{} ? Clock::duration{}
                                                         : now - std::max(wait.since, wait.other_part);
        pending.stuck = now - std::max(wait.stuck, wait.part);
        pending.known = now;
        pending.movements = movements_until_now();
        pending.looked = looked;
        pending.reported = wait.reported;
      }
      look(pending, now);
      if (is_over(pending)) return;
      if (const Task* const unfinished = first_unfinished(pending)) throw_not_done(*unfinished);
      continue;
    }
    if (moved) continue;
    Task& task = first_before(*first_unfinished(pending));
    try {
      if (others_moved) {
        shm->progress();
        look_now_and_then(wait, task, about_now());
      } else {
        idle(wait, task);
      }
    } catch (...) {
      fail(&task);
    }
  }
}

void Impl::throw_not_done(const Task& unfinished) {
  Task& stuck = first_before(unfinished);
  std::vector<Rank> awaited;
  try {
    awaited = ranks_awaited(stuck);
  } catch (...) {
    std::rethrow_exception(fail(&stuck));
  }
  const std::vector<Rank> blamed = at_fault(stuck, awaited);
  throw Error(ErrorCode::timeout,
              title(unfinished) + " is not done yet: waiting for " + whom(awaited, blamed) +
                  "; it goes on and can be waited for again",
              blamed);
}

// The task that must be done before `task` can move, or itself. Only that one may look at its channels.
Task& Impl::first_before(const Task& task) {
  if (task.plan != nullptr) return *collectives.front().task;
  const auto found = std::find_if(point_to_point.begin(), point_to_point.end(), [&](const Queued& queued) {
    const Call& call = queued.task->call;
    return call.operation == task.call.operation && call.within == task.call.within &&
           call.root == task.call.root && is_next(*queued.task);
  });
  return *found->task;
}

bool Impl::is_over(const Pending& pending) {
  if (pending.failure) std::rethrow_exception(pending.failure);
  if (pending.unfinished == 0) return true;
  if (tutti::fork_generation() != fork_generation) refuse();
  if (!unusable.load(std::memory_order_acquire)) [[likely]]
    return false;
  try {
    refuse();
  } catch (...) {
    std::rethrow_exception(fail(first_unfinished(pending)));  // not before others have left its buffers
  }
}

void Impl::look(Pending& pending, Clock::time_point now) {
  if (now - pending.looked < look_interval) return;
  pending.looked = now;
  pending.still(now, movements_until_now());
  Wait wait;
  wait.since = now - pending.idle;
  wait.stuck = now - pending.stuck;
  wait.reported = pending.reported;
  Task& task = first_before(*first_unfinished(pending));
  try {
    look_around(wait, task, now);
  } catch (...) {
    fail(&task);
  }
  pending.reported = wait.reported;
}

bool Impl::test(Pending& pending) {
  if (is_over(pending)) return true;
  const Leaving leaving{*shm};
  const bool moved = advance_queues();
  advance_others(this);
  if (is_over(pending)) return true;
  if (moved)
    pending.moved();
  else
    look(pending, Clock::now());
  return is_over(pending);
}

// A send or receive, where ranks share memory and processors.
bool Impl::waits_for_peer(const Task& task) const {
  return looks_beside && tcp == nullptr && task.plan == nullptr;
}

// Where ranks share processors: to poll on for one of this processor would keep it from sending. Who waits
// for a message of one elsewhere that is not on its processor had better make room, but not at once, or the
// two may miss each other for ever. Who waits for one that copies a long message makes room at once. In
// collectives all need the same messages: nobody else can go on.
bool Impl::gains_by_leaving(const Wait& wait, const Task& task) {
  if (wait.polls == 1)
    return task.execution.waits_for_any(shm->beside()) ||
           (waits_for_peer(task) && task.execution.flushes_late());
  return waits_for_peer(task) && wait.polls % looks_for_peer == 0 &&
         task.execution.waits_for_any(shm->absent());
}

// To sleep on one transport is cheaper, for who wakes this rank, too: where all comes over one that this
// communicator waits for now, on that one, unless another one needs this rank.
transport::Sleep& Impl::sleeper_for(const Task& task) {
  if (sleepers.size() == 1 || !task.begun) return on_all;
  const auto only_by = [this, &task](const Sleeper& one) {
    const auto waits_for_others = [&one](const Task& some) {
      return some.begun && !some.done && some.execution.waits_for_any(one.others, false);
    };
    const auto needs_it = [&one](const Sleeper& other) { return &other != &one && other.on.backlogged(); };
    return !waits_for_others(task) && std::ranges::none_of(sleepers, needs_it) &&
           (collectives.empty() || !waits_for_others(*collectives.front().task)) &&
           std::ranges::none_of(point_to_point, [&](const Queued& q) { return waits_for_others(*q.task); }) &&
           std::ranges::none_of(together, [&](const auto& member) { return waits_for_others(*member); });
  };
  const auto found = std::ranges::find_if(sleepers, only_by);
  return found == sleepers.end() ? on_all : found->on;
}

void Impl::idle(Wait& wait, Task& task) {
  shm->progress();
  if (tcp != nullptr) tcp->idle();
  if (verbs != nullptr) verbs->progress();
  const unsigned most = waits_for_peer(task) ? spin_paired : spin_polls;
  if (++wait.polls < most) [[likely]] {
    if (wait.polls * looks_a_poll > 256) pause();
    if (!looks_beside || !gains_by_leaving(wait, task)) return;
    wait.polls = most;
  }
  const auto now = about_now();
  if (wait.since == Clock::time_point{}) {
    wait.since = now;
    wait.reported = false;
    if (wait.stuck == Clock::time_point{}) wait.stuck = wait.checked = now;
  }
  if (now - wait.checked >= look_interval) [[unlikely]]
    look_now_and_then(wait, task, now);
  if (now - wait.since < yield_for) {
    shm->leave_processor(take_work(now));
    const auto away = yield_processor(now);
    shm->be_back();
    if (away) {
      if (*away >= dear_yield && !shm->ranks_used(*away)) avoid_yields(now + *away);
      return;
    }
  }
  // Between looking and sleeping something may arrive, so look once more after saying so.
  if (wait.prepared == nullptr) {
    wait.prepared = &sleeper_for(task);
    wait.prepared->prepare();
    return;
  }
  shm->leave_processor(take_work(now));
  wait.prepared->wait(longest_sleep);
  wait.prepared = nullptr;
  shm->be_back();
  take_work(about_now());  // sleep is none
}

// While parts of it move a long message is no silence, and whoever has left is not missed while what it sent
// still comes.
void Impl::look_for_parts(Wait& wait, Clock::time_point now) const {
  const Movements before = std::exchange(wait.movements, movements_until_now());
  const bool of_communicator = before.of_communicator != wait.movements.of_communicator;
  if (of_communicator) wait.part = now;
  if (of_communicator || before.of_thread != wait.movements.of_thread) wait.other_part = now;
}

void Impl::look_now_and_then(Wait& wait, Task& task, Clock::time_point now) {
  if (wait.stuck == Clock::time_point{}) wait.stuck = wait.checked = now;
  if (now - wait.checked < look_interval) return;
  wait.look(now);
  look_for_parts(wait, now);
  look_around(wait, task, now);
}

void Impl::look_around(Wait& wait, Task& task, Clock::time_point now) {
  const auto waited = wait.since == Clock::time_point{} ? Clock::duration{} : now - wait.since;
  if (unusable.load(std::memory_order_acquire)) ensure_usable();
  watch->poll();
  if (const auto notice = watch->failure(group.communicator)) throw failure_of_others(&task, *notice);
  if (const auto error = failure_in_memory(&task)) throw Error(*error);
  if (now - std::max(wait.stuck, wait.part) >= gone_grace) check_members(task);
  if (waited >= suspect_after) {
    ranks_awaited(task);
    check_calls(task);
  }
  if (waited >= report_after && !wait.reported && tcp != nullptr) {
    wait.reported = true;
    report_calls();
  }
  const auto silent = std::min(waited, now - wait.other_part);
  if (silent >= options.timeout) give_up(task, silent);
}

}  // namespace tutti::detail
