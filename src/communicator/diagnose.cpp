// What went wrong, and who has to know: from silence, closed connections and odd messages to one error.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <new>
#include <optional>

#include "bootstrap/frame.hpp"
#include "communicator/impl.hpp"

namespace tutti::detail {

namespace {

using namespace std::chrono_literals;

constexpr auto loss_explained_within = 300ms;
constexpr auto closing_heard_within = 500ms;
constexpr auto buffers_left_within = 5000ms;  // where a piece takes milliseconds, with much to spare
constexpr std::size_t most_reported = 32;     // calls, to the hub

/// What to do about calls that differ.
std::string remedy(const Call& call) {
  return is_point_to_point(call)
             ? "; what one rank sends, the other must receive: as many elements of the same type"
             : "; all ranks must make the same call";
}

}  // namespace

std::string Impl::named(Rank rank, const std::string& more) const {
  return detail::named(rank, group.world[static_cast<std::size_t>(rank)], more);
}

std::optional<Watch::Gone> Impl::gone(Rank rank) const {
  return watch->gone(group.world[static_cast<std::size_t>(rank)], group.communicator);
}

std::vector<Rank> Impl::ranks_awaited(Task& task) {
  try {
    return task.awaited();
  } catch (const transport::Mismatch& mismatch) {
    mismatched(task, mismatch);
  }
}

// Ranks that fail because another one died go, too: the first is the cause.
std::optional<Rank> Impl::first_dead() const {
  std::optional<Rank> first;
  Clock::time_point since;
  for (Rank r = 0; r < group.size; ++r) {
    const auto end = gone(r);
    if (!end || end->orderly || (first && since <= end->since)) continue;
    first = r;
    since = end->since;
  }
  return first;
}

Error Impl::member_gone(const Task* task, Rank rank) const {
  return {ErrorCode::peer_lost,
          fmt::format("{}{} {}; make a new communicator without it to go on",
                      task == nullptr ? "" : title(*task) + ": ", named(rank), gone(rank)->did),
          {rank}};
}

Error Impl::failure_of_others(const Task* task, const bootstrap::Notice& notice) const {
  return {code_for_others(notice.code), (task == nullptr ? "" : title(*task) + ": ") + notice.text,
          notice.ranks};
}

std::optional<Error> Impl::heard(const Task* task) {
  watch->poll();
  if (const auto notice = watch->failure(group.communicator)) return failure_of_others(task, *notice);
  if (const auto dead = first_dead()) return member_gone(task, *dead);
  return failure_in_memory(task);
}

// Without a hub nobody says why, nor where a rank destroys its communicator while calls are under way. But a
// rank of this host that does that, or fails, closes the buffers of all, of which the hub tells a little
// later.
std::optional<Error> Impl::failure_in_memory(const Task* task) {
  const auto closing = shm == nullptr ? std::nullopt : shm->closed_by();
  if (!closing || closing->by == group.rank) return std::nullopt;
  const auto now = Clock::now();
  Clock::rep first = 0;
  if (closing_seen.compare_exchange_strong(first, now.time_since_epoch().count()))
    first = now.time_since_epoch().count();
  const auto seen_for = now.time_since_epoch() - Clock::duration(first);
  if (!watch->session().hub_has_ended() && seen_for < closing_heard_within) return std::nullopt;
  watch->poll();                                                        // what that rank had seen
  if (const auto dead = first_dead()) return member_gone(task, *dead);  // the cause
  const std::vector<Rank> itself{closing->by};
  const bool by_abort = closing->code == ErrorCode::aborted && closing->at_fault == itself;
  if (closing->code && !by_abort) return failure_of(task, closing->by, *closing->code, closing->at_fault);
  const auto its_end = gone(closing->by);
  std::string text = fmt::format("{} {}", named(closing->by),
                                 its_end ? its_end->did : "failed, aborted or ended its communicator");
  std::vector<Rank> ranks = itself;
  for (Rank r = 0; r < group.size; ++r) {
    const auto end = gone(r);
    if (!end || r == closing->by) continue;
    text += fmt::format("; before or since, {} {}", named(r), end->did);
    if (watch->session().hub_has_ended()) ranks.push_back(r);  // it may have died
  }
  return Error(ErrorCode::aborted, (task == nullptr ? "" : title(*task) + ": ") + text, std::move(ranks));
}

// As far as it is known without the other one's words.
Error Impl::failure_of(const Task* task, Rank failed_rank, ErrorCode code,
                       const std::vector<Rank>& at_fault) const {
  if (code == ErrorCode::peer_lost && at_fault.size() == 1 && gone(at_fault[0]))
    return member_gone(task, at_fault[0]);
  std::string whom;
  for (const Rank r : at_fault) whom += (whom.empty() ? ", which names " : ", ") + named(r);
  return {code_for_others(code),
          fmt::format("{}{} failed ({}{}); the text of its error says why",
                      task == nullptr ? "" : title(*task) + ": ", named(failed_rank), name(code), whom),
          at_fault.empty() ? std::vector{failed_rank} : at_fault};
}

void Impl::check_others() {
  ensure_usable();
  try {
    if (const auto error = heard(nullptr)) throw Error(*error);
  } catch (...) {
    std::rethrow_exception(fail(nullptr));
  }
}

// A closed connection says whose, not why: that rank may have given up because of another one.
Error Impl::explain_loss(const Task* task, const Error& loss) {
  for (const Deadline deadline(loss_explained_within); !deadline.passed(); ::sched_yield()) {
    if (auto error = heard(task)) return *error;
    for (const Rank r : loss.ranks())
      if (gone(r)) return member_gone(task, r);
  }
  for (Rank r = 0; r < group.size && loss.ranks().empty(); ++r)
    if (gone(r)) return member_gone(task, r);
  return of_call(task, loss);
}

// A rank that left in order may have done its part of this call; one that died fails everybody.
void Impl::check_members(Task& task) {
  const auto gone_for_long = [&](Rank r) {
    const auto end = gone(r);
    return end && Clock::now() - end->since >= gone_grace;
  };
  if (const auto dead = first_dead(); dead && gone_for_long(*dead)) throw member_gone(&task, *dead);
  for (Rank r = 0; r < group.size; ++r) {
    if (!gone_for_long(r)) continue;
    const auto awaited = ranks_awaited(task);      // also looks for what a step awaits after what is missing
    if (awaited.empty() && advance(task)) return;  // what it waited for has come since
    // Where a packet was lost, what it sent comes later than its goodbye; and then the connection's end.
    if (tcp && tcp->may_bring_from(r)) continue;
    if (awaited.empty() || std::find(awaited.begin(), awaited.end(), r) != awaited.end())
      throw member_gone(&task, r);
  }
}

// Tags cover all calls so far, so the earliest that differs is the one to name.
void Impl::check_calls(const Task& task) {
  if (task.plan == nullptr) return;
  const auto mine = logged_calls(group.rank);
  for (const Rank r : shm->locals()) {
    if (r == group.rank) continue;
    const auto theirs = logged_calls(r);
    auto same = theirs.begin();
    for (const LoggedCall& call : mine) {
      while (same != theirs.end() && same->sequence < call.sequence) ++same;
      if (same == theirs.end()) break;
      if (call.sequence == 0 || same->sequence != call.sequence || same->tag == call.tag) continue;
      const std::string here = describe_logged(group.rank, call), there = describe_logged(r, *same);
      throw Error(ErrorCode::mismatch,
                  fmt::format("call {}: {} called {}, {} called {}{}; all ranks must make the same call",
                              call.sequence - warm_up_calls, named(group.rank), here, named(r), there,
                              there == here ? " with other options, schedule, factor or counts" : ""),
                  {group.rank, r});
    }
  }
}

void Impl::report_calls() {
  auto calls = logged_calls(group.rank);
  std::erase_if(calls, [&](const LoggedCall& call) { return call.sequence <= warm_up_calls; });
  std::vector<bootstrap::CallRecord> records;
  for (const LoggedCall& call : std::span(calls).last(std::min(calls.size(), most_reported)))
    records.push_back({call.sequence - warm_up_calls, call.tag, describe_logged(group.rank, call)});
  watch->session().report_stuck(group.communicator, group.rank, records);
}

std::string Impl::what_they_do(std::span<const Rank> ranks) const {
  std::string who;
  for (const Rank r : ranks) who += (who.empty() ? "" : "; ") + named(r, doing(r));
  return who.empty() ? "other ranks" : who;
}

// Who is awaited may itself wait for one that has not come. Of other hosts that is not known, nor where
// what a rank has called since takes all of its log.
std::vector<Rank> Impl::at_fault(const Task& task, const std::vector<Rank>& awaited) const {
  if (task.plan == nullptr) return awaited;
  std::vector<Rank> absent;
  for (Rank r = 0; r < group.size; ++r) {
    const auto calls = logged_calls(r);
    const auto is_call_of_all = [](const LoggedCall& call) { return call.sequence != 0; };
    const auto latest = std::find_if(calls.rbegin(), calls.rend(), is_call_of_all);
    const bool complete = calls.empty() || calls.front().order == 1;
    const bool known = shm->reaches(r) && (latest != calls.rend() || complete);
    const bool is_there = known && latest != calls.rend() && latest->sequence >= task.sequence;
    const bool is_awaited = std::ranges::find(awaited, r) != awaited.end();
    if (r != group.rank && !is_there && (known || is_awaited)) absent.push_back(r);
  }
  return absent.empty() ? awaited : absent;
}

std::string Impl::whom(const std::vector<Rank>& awaited, const std::vector<Rank>& at_fault) const {
  std::vector<Rank> absent = at_fault;
  std::erase_if(absent, [&](Rank r) { return std::ranges::find(awaited, r) != awaited.end(); });
  return what_they_do(awaited) + (absent.empty() ? "" : "; not there yet: " + what_they_do(absent));
}

void Impl::give_up(Task& task, Clock::duration waited) {
  const std::vector<Rank> waiting_for = task.awaited();
  const std::vector<Rank> blamed = at_fault(task, waiting_for);
  const bool may_be_a_cycle =
      is_point_to_point(task.call) && std::ranges::all_of(waiting_for, [this](Rank r) {
        if (!shm->reaches(r)) return true;
        const auto calls = logged_calls(r);
        return !calls.empty() && calls.back().sequence == 0;
      });
  throw Error(ErrorCode::timeout,
              title(task) + ": nothing moved for " +
                  std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(waited).count()) +
                  " ms; waiting for " + whom(waiting_for, blamed) +
                  " (Options::timeout or TUTTI_TIMEOUT sets the limit)" +
                  (may_be_a_cycle ? "; sends and receives that wait for each other belong in one Group" : ""),
              blamed);
}

// Of all_to_all_v each pair knows its sizes only. The log has what ranks of this host send to the first few.
Error Impl::sizes_differ(const Task& task, Rank from) const {
  const auto me = static_cast<std::size_t>(group.rank);
  const std::size_t expected = task.call.out_counts[static_cast<std::size_t>(from)];
  std::string who =
      fmt::format("{} sends this one another number of elements than it expects, {}", named(from), expected);
  for (const LoggedCall& call : logged_calls(from)) {
    if (call.sequence != task.sequence) continue;
    const auto counts = logged_counts(from, call);
    if (me < std::min(counts.size(), std::size(call_log->counts[0].first)) && counts[me] != expected)
      who = fmt::format("{} called {}, which sends this one {} elements; it expects {}", named(from),
                        describe_logged(from, call), counts[me], expected);
  }
  return {ErrorCode::mismatch,
          title(task) + ": " + who + "; in_counts[d] of rank s must equal out_counts[s] of rank d",
          {group.rank, from}};
}

// Sends and receives are numbered by pair, so only what this rank's peer sent it can have come.
Error Impl::message_differs(const Task& task, const transport::Mismatch& mismatch) const {
  const Rank peer = task.call.root;
  std::string what = fmt::format("{} sent another message", named(peer));
  for (const LoggedCall& call : logged_calls(peer))
    if (call.tag == mismatch.found && call.operation() == Operation::send && call.root == group.rank)
      what = fmt::format("{} called {}", named(peer), describe_logged(peer, call));
  return {ErrorCode::mismatch, title(task) + ": " + what + remedy(task.call), {group.rank, peer}};
}

// A message of another call has arrived. Which, the log of this host knows, or else the hub.
void Impl::mismatched(const Task& task, const transport::Mismatch& mismatch) {
  const Rank from = mismatch.from;
  if (task.plan == nullptr) throw message_differs(task, mismatch);
  check_calls(task);
  for (const LoggedCall& call : logged_calls(from))
    if (call.tag == mismatch.found && call.sequence != 0)
      throw Error(
          ErrorCode::mismatch,
          title(task) + ": " + named(from) + " called " + describe_logged(from, call) + remedy(task.call),
          {group.rank, from});
  if (task.call.operation == Operation::all_to_all_v) throw sizes_differ(task, from);
  report_calls();
  for (const Deadline deadline(500ms); !deadline.passed(); ::sched_yield()) {
    watch->poll();
    if (const auto notice = watch->failure(group.communicator)) throw failure_of_others(&task, *notice);
  }
  throw Error(ErrorCode::mismatch,
              title(task) + ": " + named(from) + " sent a message of another call" + remedy(task.call),
              {group.rank, from});
}

std::string Impl::title(const Task& task) const {
  const std::uint64_t uncounted = is_point_to_point(task.call) ? 0 : warm_up_calls;
  return describe(task.call) +
         (task.sequence <= uncounted ? ", while the communicator was made,"
                                     : " #" + std::to_string(task.sequence - uncounted)) +
         " on " + named(group.rank);
}

// Transports do not know which call they serve.
Error Impl::of_call(const Task* task, const Error& error) const {
  if (task == nullptr || std::string(error.what()).find(describe(task->call)) != std::string::npos)
    return error;
  return bootstrap::with_context(error, title(*task) + ": ", {});
}

Error out_of_memory(Rank rank) {
  return {ErrorCode::system, fmt::format("rank {} is out of memory; free some on its host", rank), {rank}};
}

// What the exception means that is being handled.
Error Impl::caught(const Task* task) {
  try {
    try {
      throw;
    } catch (const transport::Mismatch& mismatch) {
      mismatched(*task, mismatch);
    }
  } catch (const Error& e) {
    return e.code() == ErrorCode::peer_lost ? explain_loss(task, e) : of_call(task, e);
  } catch (const std::bad_alloc&) {
    return of_call(task, out_of_memory(group.rank));
  } catch (const std::exception& e) {
    return of_call(task, Error(ErrorCode::system, e.what(), {group.rank}));
  }
}

// Throws nothing: where there is no memory to say more, those of this host see that this rank has failed all
// the same.
std::exception_ptr Impl::fail(const Task* task) {
  if (failed) return failed;
  last_memory.reset();
  std::optional<Error> error;
  try {
    error.emplace(caught(task));
    failed_text = error->what();
    failed_ranks = error->ranks();
    failed = std::make_exception_ptr(*error);
  } catch (const std::bad_alloc&) {
    failed_text = "out of memory";
    failed = std::current_exception();
  }
  unusable.store(true, std::memory_order_release);
  if (error) {
    if (fork_generation == tutti::fork_generation()) shm->blame(error->code(), error->ranks());
    watch->session().announce_failure(group.communicator, *error);
  }
  end_queued([this](const Task&) { return failed; });
  close_buffers();
  return failed;
}

// Callers may free their buffers next. Whoever is in the middle of one is not for long, unless it is stopped
// or shares its processor with many.
void Impl::close_buffers() {
  if (fork_generation != tutti::fork_generation()) return;  // they are the parent's
  shm->close_buffers(buffers_left_within, [this](Rank r) {
    try {
      watch->poll();
      return gone(r).has_value();
    } catch (const std::bad_alloc&) {
      return false;
    }
  });
}

}  // namespace tutti::detail
