// Memory of the library's, and registrations, which tutti has no use for: ranks of one process reach each
// other's buffers as they are, and others get copies. Handles are kept, so that wrong ones are found.
#include <fmt/format.h>

#include "gpu/api.hpp"
#include "nccl/functions.hpp"
#include "nccl/handles.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

namespace {

void require_device_memory(const void* memory) {
  require(memory, "the memory");
  if (gpu::api()->look_at(memory).kind == gpu::Pointer::Kind::host)
    throw Failure(ncclInvalidArgument, "this is plain host memory, which GPU calls do not take");
}

Registration* register_memory(ncclComm_t comm, void* memory, std::size_t bytes) {
  if (bytes == 0) throw Failure(ncclInvalidArgument, "0 bytes cannot be registered");
  require_device_memory(memory);
  return ready(comm)->add_registration(memory, bytes);
}

}  // namespace

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  return guarded("ncclMemAlloc", [&] {
    require(memory, "the address of the memory");
    *memory = bytes == 0 ? nullptr : gpu::api()->allocate(bytes);
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(MemAlloc);

ncclResult_t ncclMemFree(void* memory) {
  return guarded("ncclMemFree", [&] {
    if (memory == nullptr) return ncclSuccess;
    require_device_memory(memory);
    gpu::api()->free(static_cast<std::byte*>(memory));
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(MemFree);

ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, std::size_t bytes, void** handle) {
  return guarded("ncclCommRegister", [&] {
    require(handle, "the handle's address");
    *handle = register_memory(comm, memory, bytes);
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(CommRegister);

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  return guarded("ncclCommDeregister", [&] {
    require(handle, "the handle");
    comm_of(comm)->drop_registration(static_cast<Registration*>(handle));
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(CommDeregister);

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes, ncclWindow_t* window,
                                    int flags) {
  return guarded("ncclCommWindowRegister", [&] {
    require(window, "the window's address");
    if ((flags & ~window_symmetric) != 0)
      throw Failure(ncclInvalidArgument, fmt::format("{:#x} are no flags of a window", flags));
    *window = reinterpret_cast<ncclWindow_t>(register_memory(comm, memory, bytes));
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(CommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return guarded("ncclCommWindowDeregister", [&] {
    if (window == nullptr) return ncclSuccess;
    comm_of(comm)->drop_registration(reinterpret_cast<Registration*>(window));
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(CommWindowDeregister);

}  // namespace tutti::nccl
