// Calls that are started together: groups, and what is asynchronous.
#include <algorithm>
#include <cstring>
#include <utility>

#include "communicator/impl.hpp"

namespace tutti::detail {

namespace {

// The call with its spans copied to `counts`: the caller may drop them.
Call own_counts(Call call, std::vector<std::size_t>& counts) {
  const auto parts = {&call.in_counts, &call.in_displacements, &call.out_counts, &call.out_displacements};
  std::size_t total = 0;
  for (const auto* part : parts) total += part->size();
  counts.clear();
  counts.reserve(total);
  for (auto* part : parts) {
    const std::size_t at = counts.size();
    counts.insert(counts.end(), part->begin(), part->end());
    *part = std::span(counts).subspan(at, part->size());
  }
  return call;
}

// Such calls were checked one by one.
Sizes sizes_of_message(const Call& call) {
  const std::size_t bytes = bytes_of_message(call);
  return call.operation == Operation::send ? Sizes{.in_bytes = bytes} : Sizes{.out_bytes = bytes};
}

}  // namespace

bool Impl::to_itself(const Call& call) const { return is_point_to_point(call) && call.root == group.rank; }

// What this rank sends itself, in the order of its calls.
void Impl::deliver_own(std::span<const Call> calls) {
  std::vector<const Call*> sends, receives;
  for (const Call& call : calls)
    if (to_itself(call)) (call.operation == Operation::send ? sends : receives).push_back(&call);
  if (sends.size() != receives.size())
    throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(group.rank) + " sends itself " +
                                                 std::to_string(sends.size()) + " message(s) and receives " +
                                                 std::to_string(receives.size()) + " in one group");
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const Call &send = *sends[i], &receive = *receives[i];
    if (send.count != receive.count || send.type != receive.type)
      throw Error(ErrorCode::invalid_argument,
                  describe(send) + " and " + describe(receive) + " of one rank do not match");
  }
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const Call &send = *sends[i], &receive = *receives[i];
    if (send.count != 0) std::memmove(receive.out, send.in, bytes_of_message(send));
    count_done(send);
    count_done(receive);
  }
}

// Checks and plans: what cannot be is refused before anything is begun.
void Impl::admit_together(std::span<const Call> calls) {
  ensure_usable();
  together_sizes.clear();
  for (const Call& call : calls)
    together_sizes.push_back(is_point_to_point(call) ? sizes_of_message(call) : admit(call));
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (!is_point_to_point(calls[i])) find_plan(calls[i], together_sizes[i]);
  deliver_own(calls);
}

// Whether these are sends and receives, none to this rank itself, that the tasks of the last group can take
// as they are.
bool Impl::repeats_last(std::span<const Call> calls) const {
  if (calls.size() > together.size()) return false;
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (!is_point_to_point(calls[i]) || to_itself(calls[i]) || !is_ready(*together[i], calls[i]))
      return false;
  return true;
}

void Impl::run(std::span<const Call> calls) {
  if (!collectives.empty() || !point_to_point.empty()) {
    const auto pending = start(calls);
    wait(*pending, std::nullopt);
    return;
  }
  const bool again = repeats_last(calls);
  if (again)
    ensure_usable();
  else
    admit_together(calls);
  const Task* current = nullptr;
  try {
    std::size_t count = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!again && to_itself(calls[i])) continue;
      if (together.size() == count) together.push_back(std::make_unique<Task>());
      Task& task = *together[count++];
      if (again)
        issue(task, true);
      else
        prepare(task, calls[i], together_sizes[i]);
    }
    const auto tasks = std::span(together).first(count);
    wait_together(tasks, current);
    for (const auto& task : tasks) task->give_back();
  } catch (...) {
    std::rethrow_exception(fail(current));
  }
}

std::shared_ptr<Pending> Impl::new_pending() {
  auto& place = pendings[next_pending++ % pendings.size()];
  if (place == nullptr || place.use_count() != 1) place = std::make_shared<Pending>();
  place->reuse(this);
  return place;
}

std::shared_ptr<Pending> Impl::start(std::span<const Call> calls) {
  admit_together(calls);
  auto work = new_pending();
  try {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (to_itself(calls[i])) continue;
      Task& task = work->add();
      prepare(task, own_counts(calls[i], task.counts), together_sizes[i]);
    }
    enqueue(work);
  } catch (...) {
    std::rethrow_exception(fail(nullptr));
  }
  return work;
}

}  // namespace tutti::detail
