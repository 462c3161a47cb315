// Functions of NCCL later than 2.28. Programs that were built against these, such as PyTorch 2.15, could not
// even be loaded without them. A program asks ncclGetVersion before it calls them; who does all the same is
// told so. Their arguments are not looked at.
#include "nccl/abi.hpp"
#include "nccl/result.hpp"

#define TUTTI_NCCL_LATER(name)                                                                     \
  extern "C" ncclResult_t name();                                                                  \
  ncclResult_t name() {                                                                            \
    return guarded(#name, []() -> ncclResult_t {                                                   \
      throw Failure(ncclInvalidUsage, "tutti is as NCCL 2.28, which does not have this function"); \
    });                                                                                            \
  }                                                                                                \
  extern "C" decltype(name) p##name [[gnu::alias(#name)]]

namespace tutti::nccl {

TUTTI_NCCL_LATER(ncclCommGetUniqueId);
TUTTI_NCCL_LATER(ncclCommGrow);
TUTTI_NCCL_LATER(ncclCommMemStats);
TUTTI_NCCL_LATER(ncclCommResume);
TUTTI_NCCL_LATER(ncclCommSuspend);
TUTTI_NCCL_LATER(ncclGetLsaMultimemDevicePointer);
TUTTI_NCCL_LATER(ncclGetPeerDevicePointer);
TUTTI_NCCL_LATER(ncclPutSignal);
TUTTI_NCCL_LATER(ncclSignal);
TUTTI_NCCL_LATER(ncclWaitSignal);
TUTTI_NCCL_LATER(ncclWinGetUserPtr);

}  // namespace tutti::nccl
