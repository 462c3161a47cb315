#include "communicator/impl.hpp"

namespace tutti::detail {

void Impl::abort(const std::string& reason) noexcept {
  if (abort_begun.test_and_set()) return;
  const std::lock_guard lock(abort_under_way);
  try {
    abort_reason = reason;
    failed_before_abort = unusable.load(std::memory_order_acquire);
    abort_requested.store(true, std::memory_order_release);
    unusable.store(true, std::memory_order_release);
    if (fork_generation == tutti::fork_generation()) shm->close();
    watch->session().announce_abort(
        group.communicator,
        Error(ErrorCode::aborted, named(group.rank) + " aborted: " + reason, {group.rank}));
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for the text; the flags below are what matters
    abort_requested.store(true, std::memory_order_release);
    unusable.store(true, std::memory_order_release);
  }
}

}  // namespace tutti::detail
