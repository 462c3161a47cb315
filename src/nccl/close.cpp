// How a communicator ends: with the others, or without them.
#include "gpu/resources.hpp"
#include "nccl/comm.hpp"

namespace tutti::nccl {

ncclResult_t Comm::close(const char* function) {
  const auto neighbours = neighbours_;
  if (closed_.exchange(true)) return poll();
  if (!neighbours) return ncclSuccess;  // it was never made
  bool last = false;
  {
    const std::scoped_lock lock(neighbours->mutex);
    last = --neighbours->open == 0;
    ++neighbours->closing;
  }
  start(function, [this, neighbours] {
    const std::scoped_lock lock(use_);
    disconnect();
    const std::scoped_lock their_lock(neighbours->mutex);
    --neighbours->closing;
    neighbours->moved.notify_all();
  });
  if (!config_.blocking) return ncclInProgress;
  if (last) {
    std::unique_lock lock(neighbours->mutex);
    neighbours->moved.wait(lock, [&] { return neighbours->closing == 0; });
  }
  return ncclSuccess;
}

void Comm::revoke() {
  std::shared_ptr<Communicator> communicator;
  {
    const std::scoped_lock lock(state_mutex_);
    revoked_ = true;
    communicator = communicator_;
  }
  if (communicator) communicator->abort("ncclCommRevoke was called");
}

void Comm::abort() {
  std::shared_ptr<Communicator> communicator;
  {
    const std::scoped_lock lock(state_mutex_);
    aborted_ = true;
    communicator = communicator_;
    if (!communicator && state_ == ncclInProgress) return;  // its job will find out
  }
  if (communicator) communicator->abort("ncclCommAbort was called");
  communicator.reset();
  const std::scoped_lock lock(use_);
  if (closed_.exchange(true)) return;
  if (neighbours_) {
    const std::scoped_lock their_lock(neighbours_->mutex);
    --neighbours_->open;
  }
  if (!api_) return;
  const gpu::OnDevice here(*api_, device_);
  disconnect();
}

}  // namespace tutti::nccl
