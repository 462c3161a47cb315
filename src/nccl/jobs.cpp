// What a communicator does on threads of its own, because ranks wait for each other in it.
#include "base/quiet_thread.hpp"
#include "nccl/comm.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

void Comm::start(const char* function, std::function<void()> work) {
  {
    const std::scoped_lock lock(state_mutex_);
    state_ = ncclInProgress;
  }
  // Detached: an abort does not wait for a job that waits for ranks which never come.
  quiet_thread([self = shared_from_this(), function, work = std::move(work)] {
    const ncclResult_t result = guarded(function, [&] {
      gpu::api()->set_device(self->device_);
      work();
      return ncclSuccess;
    });
    const std::scoped_lock lock(self->state_mutex_);
    self->state_ = result;
    if (result != ncclSuccess) self->failure_ = last_error();
    self->state_changed_.notify_all();
  })->detach();
}

ncclResult_t Comm::finish() {
  std::unique_lock lock(state_mutex_);
  state_changed_.wait(lock, [this] { return state_ != ncclInProgress; });
  lock.unlock();
  return poll();
}

ncclResult_t Comm::poll() {
  const std::scoped_lock lock(state_mutex_);
  if (state_ != ncclSuccess && state_ != ncclInProgress) remember(failure_);
  return state_;
}

void Comm::require_ready() const {
  const std::scoped_lock lock(state_mutex_);
  if (closed_) throw Failure(ncclInvalidUsage, "the communicator was finalized");
  if (state_ == ncclInProgress)
    throw Failure(ncclInvalidArgument,
                  "the communicator is not ready: call ncclCommGetAsyncError until it is no longer "
                  "ncclInProgress");
  if (state_ != ncclSuccess) throw Failure(state_, failure_);
}

std::shared_ptr<Communicator> Comm::communicator() const {
  const std::scoped_lock lock(state_mutex_);
  return communicator_;
}

}  // namespace tutti::nccl
