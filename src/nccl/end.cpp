// The ending of communicators.
#include "nccl/functions.hpp"
#include "nccl/handles.hpp"
#include "nccl/log.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return guarded("ncclCommFinalize", [&] {
    if (comm == nullptr) return ncclSuccess;  // as NCCL does, here and below
    const auto ending = comm_of(comm);
    if (ending->closed())
      throw Failure(ncclInvalidArgument,
                    "the communicator was finalized before; what is left to do is ncclCommDestroy");
    if (ending->revoked()) throw Failure(ncclInvalidArgument, "a revoked communicator cannot be finalized");
    ending->require_ready();
    return ending->close("ncclCommFinalize");
  });
}
TUTTI_NCCL_PROFILED(CommFinalize);

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return guarded("ncclCommDestroy", [&] {
    if (comm == nullptr) return ncclSuccess;
    const auto ending = comm_of(comm);
    // To wait could be for ranks that this thread has to bring.
    if (!ending->closed() && ending->poll() == ncclInProgress)
      throw Failure(ncclInvalidArgument,
                    "the communicator is not ready: call ncclCommGetAsyncError until it is no longer "
                    "ncclInProgress, or ncclCommAbort");
    ending->close("ncclCommDestroy");
    forget(comm);
    log(Level::info, ending->device(), "communicator destroyed");
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(CommDestroy);

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return guarded("ncclCommAbort", [&] {
    if (comm == nullptr) return ncclSuccess;
    const auto ending = comm_of(comm);
    ending->abort();
    forget(comm);
    log(Level::info, ending->device(), "communicator aborted");
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(CommAbort);

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  return guarded("ncclCommRevoke", [&] {
    if (comm == nullptr) return ncclSuccess;
    if (flags != 0) throw Failure(ncclInvalidArgument, "ncclCommRevoke knows no flags");
    const auto revoking = comm_of(comm);
    if (revoking->closed() || revoking->revoked())
      throw Failure(ncclInvalidArgument, "the communicator was finalized or revoked before");
    revoking->require_made();
    revoking->revoke();
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(CommRevoke);

}  // namespace tutti::nccl
