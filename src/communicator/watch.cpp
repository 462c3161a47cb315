#include "communicator/watch.hpp"

#include <exception>

namespace tutti {

Watch::~Watch() {
  // Ranks that finish together leave together: the hub does not linger long.
  if (std::uncaught_exceptions() <= exceptions_) session_->leave(std::chrono::milliseconds(1000));
}

void Watch::poll() {
  const std::lock_guard lock(mutex_);
  while (auto notice = session_->poll()) {
    if (notice->kind == bootstrap::Notice::Kind::failed)
      failures_.try_emplace(notice->communicator, std::move(*notice));
    else
      gone_.try_emplace(notice->rank, Gone{notice->kind == bootstrap::Notice::Kind::left, Clock::now()});
  }
}

std::optional<Watch::Gone> Watch::gone(Rank world) {
  const std::lock_guard lock(mutex_);
  const auto found = gone_.find(world);
  return found == gone_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<bootstrap::Notice> Watch::failure(std::uint64_t communicator) {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(communicator);
  return found == failures_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace tutti
