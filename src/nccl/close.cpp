// How a communicator ends: with the others, or without them.
#include "nccl/comm.hpp"

namespace tutti::nccl {

std::shared_ptr<Neighbours> Comm::neighbours() const {
  const std::scoped_lock lock(state_mutex_);
  return neighbours_;
}

ncclResult_t Comm::close(const char* function) {
  const auto neighbours = this->neighbours();
  if (closed_.exchange(true)) return poll();
  if (!neighbours) return ncclSuccess;  // it was never made
  bool last = false;
  {
    const std::scoped_lock lock(neighbours->mutex);
    last = --neighbours->open == 0;
    ++neighbours->closing;
  }
  // When the job goes, however it ended, or if it could not begin.
  std::shared_ptr<void> closing(nullptr, [neighbours](void*) {
    const std::scoped_lock lock(neighbours->mutex);
    --neighbours->closing;
    neighbours->moved.notify_all();
  });
  const bool started = start(function, [this, turn = next_turn(), closing = std::move(closing)] {
    turn->begin();
    const std::scoped_lock lock(use_);
    disconnect();
  });
  if (!started) {
    // This thread may have other ranks, so it cannot wait for them.
    break_off("a rank could not start the thread that ends it");
    const std::scoped_lock lock(use_);
    disconnect();
  }
  if (!config_.blocking) return started ? ncclInProgress : poll();
  if (last) {
    std::unique_lock lock(neighbours->mutex);
    neighbours->moved.wait(lock, [&] { return neighbours->closing == 0; });
  }
  return started ? ncclSuccess : poll();
}

void Comm::break_off(const char* why) {
  std::shared_ptr<Communicator> communicator;
  {
    const std::scoped_lock lock(state_mutex_);
    communicator = communicator_;
  }
  if (communicator) communicator->abort(why);
}

void Comm::revoke() {
  revoked_ = true;
  break_off("ncclCommRevoke was called");
}

void Comm::abort() {
  {
    const std::scoped_lock lock(state_mutex_);
    aborted_ = true;
    if (!made_ && !communicator_ && state_ == ncclInProgress) {
      // Its job finds out when the other ranks have come or its time is over; who waits for it does now.
      state_ = ncclInvalidUsage;
      failure_ = "ncclCommAbort was called before the communicator was ready";
      state_changed_.notify_all();
      return;
    }
  }
  break_off("ncclCommAbort was called");
  const std::scoped_lock lock(use_);
  if (closed_.exchange(true)) return;
  if (const auto neighbours = this->neighbours()) {
    const std::scoped_lock their_lock(neighbours->mutex);
    --neighbours->open;
  }
  disconnect();
}

}  // namespace tutti::nccl
