// What a program asks.
#include "nccl/functions.hpp"
#include "nccl/handles.hpp"
#include "nccl/log.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

namespace {

// Rank, size and device are known before a communicator is ready, but for a split's.
template <class Get>
ncclResult_t query(const char* function, ncclComm_t comm, int* to, const Get& get) noexcept {
  return guarded(function, [&] {
    require(to, "the address of the answer");
    const auto asked = comm_of(comm);
    if (asked->rank() < 0) asked->require_ready();
    *to = get(*asked);
    return ncclSuccess;
  });
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  return guarded("ncclGetVersion", [&] {
    require(version, "the address of the version");
    *version = version_code;
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(GetVersion);

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "a call of CUDA failed (ncclGetLastError or NCCL_DEBUG=WARN says which)";
    case ncclSystemError:
      return "a call of the operating system failed (ncclGetLastError or NCCL_DEBUG=WARN says which)";
    case ncclInternalError:
      return "internal error: a bug of tutti, or memory that was overwritten";
    case ncclInvalidArgument:
      return "invalid argument (ncclGetLastError or NCCL_DEBUG=WARN says which)";
    case ncclInvalidUsage:
      return "invalid usage (ncclGetLastError or NCCL_DEBUG=WARN says why)";
    case ncclRemoteError:
      return "another rank failed, died or did not come (ncclGetLastError or NCCL_DEBUG=WARN says which)";
    case ncclInProgress:
      return "under way";
  }
  return "unknown result code";
}
TUTTI_NCCL_PROFILED(GetErrorString);

const char* ncclGetLastError(ncclComm_t /*comm*/) { return last_error(); }
TUTTI_NCCL_PROFILED(GetLastError);

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return guarded("ncclCommGetAsyncError", [&] {
    require(error, "the address of the error");
    const auto asked = comm_of(comm);
    *error = asked->poll();
    if (*error == ncclSuccess && !asked->closed() && !asked->revoked()) *error = asked->reported();
    if (*error == ncclSuccess && asked->makes_parts()) *error = ncclInProgress;
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(CommGetAsyncError);

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  return query("ncclCommCount", comm, count, [](const Comm& c) { return c.size(); });
}
TUTTI_NCCL_PROFILED(CommCount);

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  return query("ncclCommCuDevice", comm, device, [](const Comm& c) { return c.device(); });
}
TUTTI_NCCL_PROFILED(CommCuDevice);

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  return query("ncclCommUserRank", comm, rank, [](const Comm& c) { return c.rank(); });
}
TUTTI_NCCL_PROFILED(CommUserRank);

void ncclResetDebugInit() { reset_log(); }
TUTTI_NCCL_PROFILED(ResetDebugInit);
void ncclResetDebugInitInternal() { reset_log(); }

}  // namespace tutti::nccl
