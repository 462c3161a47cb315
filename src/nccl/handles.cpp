#include "nccl/handles.hpp"

#include <mutex>
#include <unordered_map>

#include "nccl/result.hpp"

namespace tutti::nccl {

namespace {

struct Handles {
  std::mutex mutex;
  std::unordered_map<ncclComm_t, std::shared_ptr<Comm>> comms;
};
Handles& handles() {
  static auto* const all = new Handles;  // never destroyed: programs end without destroying theirs
  return *all;
}

}  // namespace

ncclComm_t keep(const std::shared_ptr<Comm>& comm) {
  Handles& all = handles();
  const std::scoped_lock lock(all.mutex);
  all.comms[comm.get()] = comm;
  return comm.get();
}

void forget(ncclComm_t handle) {
  std::shared_ptr<Comm> last;  // goes after the lock
  Handles& all = handles();
  const std::scoped_lock lock(all.mutex);
  if (const auto found = all.comms.find(handle); found != all.comms.end()) {
    last = std::move(found->second);
    all.comms.erase(found);
  }
}

std::shared_ptr<Comm> comm_of(ncclComm_t handle) {
  require(handle, "the communicator");
  Handles& all = handles();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.comms.find(handle);
  if (found == all.comms.end())
    throw Failure(ncclInvalidArgument, "this communicator was destroyed, aborted, or never made");
  return found->second;
}

std::shared_ptr<Comm> ready(ncclComm_t handle) {
  auto comm = comm_of(handle);
  comm->require_ready();
  return comm;
}

std::shared_ptr<Comm> once_made(ncclComm_t handle) {
  auto comm = comm_of(handle);
  comm->require_made();
  return comm;
}

}  // namespace tutti::nccl
