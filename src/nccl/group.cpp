#include "nccl/group.hpp"

#include <algorithm>
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
  if (job.handle == nullptr) return;
  forget(*job.handle);
  *job.handle = nullptr;
}

// Those of a communicator follow each other, as they do on its other ranks.
std::vector<Job> one_for_each(const std::vector<Job>& jobs) {
  std::vector<Job> joined;
  for (const Job& job : jobs) {
    const auto before = std::ranges::find(joined, job.comm, &Job::comm);
    if (before == joined.end())
      joined.push_back(job);
    else
      before->work = [first = std::move(before->work), then = job.work] { first(), then(); };
  }
  return joined;
}

// All of them wait for each other, so all are started first.
ncclResult_t run(const std::vector<Job>& given) {
  const std::vector<Job> jobs = one_for_each(given);
  for (const Job& job : jobs) job.comm->start(job.function, job.work);
  ncclResult_t first = ncclSuccess;
  for (const Job& job : jobs) {
    const ncclResult_t result = job.comm->config().blocking ? job.comm->finish() : ncclInProgress;
    if (result != ncclSuccess && result != ncclInProgress) drop(job);
    if (first == ncclSuccess || (first == ncclInProgress && result != ncclSuccess)) first = result;
  }
  return first;
}

void run(const std::vector<Calls>& all) {
  if (all.size() > 1)
    for (const Calls& one : all) one.comm->plan(one.calls);
  for (const Calls& one : all) one.comm->run(one.calls);
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
  if (group.depth == 0) throw Failure(ncclInvalidUsage, "there is no ncclGroupStart that this call ends");
  if (--group.depth > 0) return ncclSuccess;
  const auto jobs = std::exchange(group.jobs, {});
  const auto calls = std::exchange(group.calls, {});
  if (const ncclResult_t error = std::exchange(group.error, ncclSuccess); error != ncclSuccess) {
    for (const Job& job : jobs) drop(job);
    return error;
  }
  const ncclResult_t result = run(jobs);
  if (result == ncclSuccess || result == ncclInProgress) run(calls);
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
    if (group.depth != 1)
      throw Failure(ncclInvalidUsage, "only the outermost of a thread's groups can be simulated");
    group = {};
    require(info, "the simulation info");
    if (info->magic != simulation_magic || info->size < sizeof *info)
      throw Failure(ncclInvalidArgument, "the info is not initialised: begin with NCCL_SIM_INFO_INITIALIZER");
    info->estimatedTime = undefined_float;
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(GroupSimulateEnd);

}  // namespace tutti::nccl
