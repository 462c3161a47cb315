// What a communicator does on threads of its own, because ranks wait for each other in it.
#include <algorithm>
#include <new>
#include <utility>

#include "base/quiet_thread.hpp"
#include "nccl/comm.hpp"
#include "nccl/result.hpp"

namespace tutti::nccl {

bool Comm::start(const char* function, std::function<void()> work) {
  {
    const std::scoped_lock lock(state_mutex_);
    state_ = ncclInProgress;
  }
  const ncclResult_t started = guarded(function, [&] {
    // Detached: an abort does not wait for a job that waits for ranks which never come.
    quiet_thread([self = shared_from_this(), function, work = std::move(work)] {
      self->settle(guarded(function, [&] {
        work();
        return ncclSuccess;
      }));
    })->detach();
    return ncclSuccess;
  });
  if (started != ncclSuccess) settle(started);
  return started == ncclSuccess;
}

void Comm::settle(ncclResult_t result) {
  const std::scoped_lock lock(state_mutex_);
  const bool was_made = std::exchange(made_, true);
  // Who ends the making of a communicator hears the same wherever that was.
  state_ = aborted_ && !was_made && result != ncclSuccess ? ncclInvalidUsage : result;
  if (result != ncclSuccess) try {
      failure_ = last_error();
    } catch (const std::bad_alloc&) {  // on a thread of the library's nobody else would catch it
      failure_.clear();
    }
  state_changed_.notify_all();
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

// A program that waits for a part asks its parent: NVIDIA's library gives out no part before it is made.
void Comm::add_part(const std::shared_ptr<Comm>& part) {
  if (config_.blocking) return;
  const std::scoped_lock lock(state_mutex_);
  std::erase_if(parts_, [](const auto& other) { return other.expired(); });
  parts_.push_back(part);
}

bool Comm::makes_parts() {
  std::vector<std::shared_ptr<Comm>> parts;  // some may go here, after the lock
  {
    const std::scoped_lock lock(state_mutex_);
    for (const auto& part : parts_) parts.push_back(part.lock());
  }
  return std::ranges::any_of(parts, [](const auto& part) { return part && part->is_being_made(); });
}

bool Comm::is_being_made() const {
  const std::scoped_lock lock(state_mutex_);
  return !made_ && state_ == ncclInProgress;
}

void Comm::require_ready() const { require_state(false); }
void Comm::require_made() const { require_state(true); }

void Comm::require_state(bool may_have_failed) const {
  const std::scoped_lock lock(state_mutex_);
  if (closed_) throw Failure(ncclInvalidUsage, "the communicator was finalized");
  if (state_ == ncclInProgress)
    throw Failure(ncclInvalidArgument,
                  "the communicator is not ready: call ncclCommGetAsyncError until it is no longer "
                  "ncclInProgress");
  if (may_have_failed && neighbours_) return;
  if (state_ != ncclSuccess) throw Failure(state_, failure_);
}

std::shared_ptr<Communicator> Comm::communicator() const {
  const std::scoped_lock lock(state_mutex_);
  if (!communicator_) throw Failure(ncclInvalidUsage, "the communicator was aborted or finalized meanwhile");
  return communicator_;
}

}  // namespace tutti::nccl
