#include "nccl/group.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "nccl/functions.hpp"
#include "nccl/handles.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

namespace {

struct Calls {
  std::shared_ptr<Comm> comm;
  std::vector<Queued> calls;
};
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Job> jobs;
  std::vector<Calls> calls;  ///< by communicator, in the order of their first calls
};
thread_local Group group;

void drop(const Job& job) {
  if (job.undo) job.undo();
  if (job.handle == nullptr) return;
  forget(*job.handle);
  *job.handle = nullptr;
}

void drop_those_of(const Comm& comm, const std::vector<Job>& jobs) {
  for (const Job& job : jobs)
    if (job.comm.get() == &comm) drop(job);
}

// What a thread does: the jobs whose state one communicator has.
struct Chain {
  const Job* first;
  std::function<void()> work;
};

std::vector<Chain> one_for_each(const std::vector<Job>& jobs) {
  std::vector<Chain> chains;
  for (const Job& job : jobs) {
    std::function<void()> work = [turn = job.on->next_turn(), in_turn = job.work] {
      turn->begin();
      in_turn(*turn);
      turn->end();
    };
    const auto before =
        std::ranges::find_if(chains, [&](const Chain& chain) { return chain.first->comm == job.comm; });
    if (before == chains.end())
      chains.push_back({&job, std::move(work)});
    else
      before->work = [first = std::move(before->work), then = std::move(work)] { first(), then(); };
  }
  return chains;
}

// Those that were started may wait for one that cannot be, so nobody waits for them.
void give_up(const std::vector<Job>& jobs, std::span<const Chain> not_started) {
  for (const Chain& chain : not_started) drop_those_of(*chain.first->comm, jobs);
  for (const Job& job : jobs) {
    if (job.handle == nullptr) continue;
    job.comm->abort();
    drop(job);
  }
}

// All of them wait for each other, so all are started first.
ncclResult_t run(const std::vector<Job>& jobs) {
  std::vector<Chain> chains = one_for_each(jobs);
  for (std::size_t i = 0; i < chains.size(); ++i) {
    Comm& comm = *chains[i].first->comm;
    if (comm.start(chains[i].first->function, std::move(chains[i].work))) continue;
    give_up(jobs, std::span(chains).subspan(i));
    return comm.poll();
  }
  ncclResult_t first = ncclSuccess;
  for (const Chain& chain : chains) {
    Comm& comm = *chain.first->comm;
    // Of a part, its parent says it, as with NVIDIA's library: a part's own config is about what comes later.
    const bool waits = chain.first->on->config().blocking;
    const ncclResult_t result = waits ? comm.finish() : ncclInProgress;
    if (result != ncclSuccess && result != ncclInProgress) drop_those_of(comm, jobs);
    if (first == ncclSuccess || (first == ncclInProgress && result != ncclSuccess)) first = result;
  }
  return first;
}

// Calls come after the jobs of their communicator, also where those are still under way.
ncclResult_t finish_before(const std::vector<Calls>& calls, const std::vector<Job>& jobs) {
  for (const Calls& one : calls) {
    if (std::ranges::none_of(jobs, [&](const Job& job) { return job.comm == one.comm; })) continue;
    if (const ncclResult_t result = one.comm->finish(); result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

void run(const std::vector<Calls>& all) {
  if (all.size() > 1)
    for (const Calls& one : all) one.comm->prepare(one.calls);
  for (const Calls& one : all) one.comm->run(one.calls);
}

// Whether this was the end of the outermost one.
bool leave() {
  if (group.depth == 0) throw Failure(ncclInvalidUsage, "there is no ncclGroupStart that this call ends");
  return --group.depth == 0;
}

}  // namespace

ncclResult_t submit(Job job) {
  if (group.depth == 0) return run({std::move(job)});
  group.jobs.push_back(std::move(job));
  return ncclSuccess;
}

ncclResult_t submit(Queued call, const std::shared_ptr<Comm>& comm) {
  if (group.depth == 0) {
    comm->run({&call, 1});
    return ncclSuccess;
  }
  // Now: at the group's end, those of other communicators may run already, and wait for it.
  comm->admit(call);
  for (Calls& one : group.calls)
    if (one.comm == comm) {
      one.calls.push_back(call);
      return ncclSuccess;
    }
  group.calls.push_back({comm, {call}});
  return ncclSuccess;
}

ncclResult_t refused(ncclResult_t result) noexcept {
  if (group.depth > 0 && group.error == ncclSuccess && result != ncclSuccess && result != ncclInProgress)
    group.error = result;
  return result;
}

void begin_group() noexcept { ++group.depth; }

ncclResult_t end_group() {
  if (!leave()) return ncclSuccess;
  const auto jobs = std::exchange(group.jobs, {});
  const auto calls = std::exchange(group.calls, {});
  if (const ncclResult_t error = std::exchange(group.error, ncclSuccess); error != ncclSuccess) {
    for (const Job& job : jobs) drop(job);
    return error;
  }
  const ncclResult_t result = run(jobs);
  if (result != ncclSuccess && result != ncclInProgress) return result;
  if (const ncclResult_t before = finish_before(calls, jobs); before != ncclSuccess) return before;
  run(calls);
  return result;
}

ncclResult_t ncclGroupStart() {
  begin_group();
  return ncclSuccess;
}
TUTTI_NCCL_PROFILED(GroupStart);

ncclResult_t ncclGroupEnd() { return guarded("ncclGroupEnd", end_group); }
TUTTI_NCCL_PROFILED(GroupEnd);

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return guarded("ncclGroupSimulateEnd", [&] {
    if (!leave()) return ncclSuccess;
    const Group dropped = std::exchange(group, {});
    for (const Job& job : dropped.jobs) drop(job);
    if (dropped.error != ncclSuccess) return dropped.error;
    require(info, "the simulation info");
    if (info->magic != simulation_magic || info->size < sizeof *info)
      throw Failure(ncclInvalidArgument, "the info is not initialised: begin with NCCL_SIM_INFO_INITIALIZER");
    info->estimatedTime = undefined_float;
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(GroupSimulateEnd);

}  // namespace tutti::nccl
