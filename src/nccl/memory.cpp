// Memory of the library's; registrations of buffers, which a rank makes alone and tutti has no use for; and
// windows, which all ranks make together: calls go straight between them. Handles are kept, so that wrong
// ones are found.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "gpu/api.hpp"
#include "gpu/resources.hpp"
#include "nccl/functions.hpp"
#include "nccl/group.hpp"
#include "nccl/handles.hpp"
#include "nccl/log.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

namespace {

gpu::Pointer require_device_memory(const void* memory) {
  require(memory, "the memory");
  const gpu::Pointer found = gpu::api()->look_at(memory);
  if (found.kind == gpu::Pointer::Kind::host)
    throw Failure(ncclInvalidArgument, "this is plain host memory, which GPU calls do not take");
  return found;
}

void require_bytes(std::size_t bytes) {
  if (bytes == 0) throw Failure(ncclInvalidArgument, "0 bytes cannot be registered");
}

// Other processes open it best where it was allocated for that.
std::byte* allocate(gpu::Api& api, std::size_t bytes) {
  const bool shared = api.why_not_shared(gpu::Sharing::descriptor).empty();
  for (const bool fabric : {true, false}) {
    if (!shared || (fabric && !api.why_not_shared(gpu::Sharing::fabric).empty())) continue;
    try {
      return api.allocate_shared(bytes, fabric);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): drivers promise handles that nobody may use
    }
  }
  return api.allocate(bytes);
}

}  // namespace

std::shared_ptr<Registration> Comm::add_registration(Registration::Kind kind, void* memory,
                                                     std::size_t bytes) {
  const std::scoped_lock lock(registrations_mutex_);
  return *registrations_
              .insert(std::make_shared<Registration>(
                  Registration{.kind = kind, .memory = memory, .bytes = bytes}))
              .first;
}

void Comm::drop_registration(Registration::Kind kind, const void* registration) {
  const std::scoped_lock lock(registrations_mutex_);
  const auto found = std::ranges::find_if(
      registrations_, [&](const auto& r) { return r.get() == registration && r->kind == kind; });
  if (found == registrations_.end())
    throw Failure(kind == Registration::Kind::buffer ? ncclInvalidUsage : ncclInvalidArgument,
                  "this handle is not one of this communicator's");
  let_go(std::shared_ptr<Registration>(*found));
}

void Comm::undo_registration(const std::shared_ptr<Registration>& registration) {
  const std::scoped_lock lock(registrations_mutex_);
  let_go(registration);
}

void Comm::let_go(const std::shared_ptr<Registration>& registration) {
  // Not when a job lets go of it: calls from now on must find it gone on all ranks alike.
  registration->dropped = true;
  registration->reach.reset();
  registrations_.erase(registration);
}

void Comm::open_window(Registration& window) {
  const std::scoped_lock lock(use_);
  static_cast<void>(communicator());  // refuses what was aborted since
  std::optional<GpuRegistration> reach;
  try {
    reach = gpu_->register_memory(window.memory, window.bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    log(Level::info, device_, fmt::format("a window without effect: {}", error.what()));
  }
  const std::scoped_lock registrations_lock(registrations_mutex_);
  if (!window.dropped) window.reach = std::move(reach);
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  return guarded("ncclMemAlloc", [&] {
    require(memory, "the address of the memory");
    *memory = bytes == 0 ? nullptr : allocate(*gpu::api(), bytes);
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(MemAlloc);

ncclResult_t ncclMemFree(void* memory) {
  return guarded("ncclMemFree", [&] {
    if (memory == nullptr) return ncclSuccess;
    const gpu::Pointer found = require_device_memory(memory);
    if (found.kind == gpu::Pointer::Kind::pinned)
      throw Failure(ncclInvalidArgument, "this is page-locked host memory, which is not of ncclMemAlloc");
    const auto api = gpu::api();
    std::optional<gpu::OnDevice> there;
    if (found.kind == gpu::Pointer::Kind::device) there.emplace(*api, found.device);
    if (!api->free(static_cast<std::byte*>(memory)))
      throw Failure(ncclInvalidArgument, "this is not where memory of ncclMemAlloc begins");
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(MemFree);

ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, std::size_t bytes, void** handle) {
  return guarded("ncclCommRegister", [&] {
    require(handle, "the handle's address");
    require_bytes(bytes);
    require_device_memory(memory);
    *handle = ready(comm)->add_registration(Registration::Kind::buffer, memory, bytes).get();
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(CommRegister);

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  return guarded("ncclCommDeregister", [&] {
    if (const auto on = comm_of(comm); handle != nullptr)
      on->drop_registration(Registration::Kind::buffer, handle);
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(CommDeregister);

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes, ncclWindow_t* window,
                                    int flags) {
  return refused(guarded("ncclCommWindowRegister", [&] {
    require(window, "the window's address");
    *window = nullptr;
    require(memory, "the memory");
    if ((flags & ~window_symmetric) != 0)
      throw Failure(ncclInvalidArgument, fmt::format("{:#x} are no flags of a window", flags));
    require_bytes(bytes);
    const auto on = ready(comm);
    if (on->revoked()) throw Failure(ncclInvalidUsage, "the communicator was revoked");
    const gpu::Pointer found = gpu::api()->look_at(memory);
    if (found.kind != gpu::Pointer::Kind::device || found.device != on->device())
      throw Failure(ncclInvalidArgument,
                    fmt::format("a window is memory of device {}, which this is not", on->device()));
    const auto made = on->add_registration(Registration::Kind::window, memory, bytes);
    *window = reinterpret_cast<ncclWindow_t>(made.get());
    // Also of a window that is dropped before its turn: all ranks open theirs.
    const auto work = [opens = on.get(), made](Turn&) { opens->open_window(*made); };
    const auto undo = [on, made, window] {
      on->undo_registration(made);
      if (*window == reinterpret_cast<ncclWindow_t>(made.get())) *window = nullptr;
    };
    return submit(Job{on, work, nullptr, "ncclCommWindowRegister", on, undo});
  }));
}
TUTTI_NCCL_PROFILED(CommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return guarded("ncclCommWindowDeregister", [&] {
    if (window == nullptr) return ncclSuccess;
    comm_of(comm)->drop_registration(Registration::Kind::window, window);
    return ncclSuccess;
  });
}
TUTTI_NCCL_PROFILED(CommWindowDeregister);

}  // namespace tutti::nccl
