#include "communicator/watch.hpp"

#include <exception>

#include "base/process.hpp"

namespace tutti {

Watch::~Watch() {
  // Ranks that finish together leave together: the hub does not linger long.
  if (std::uncaught_exceptions() <= exceptions_) session_->leave(std::chrono::milliseconds(1000));
}

void Watch::know(Rank world, pid_t process) {
  const std::lock_guard lock(mutex_);
  processes_.try_emplace(world, process);
}

void Watch::poll() {
  const std::lock_guard lock(mutex_);
  while (auto notice = session_->poll()) {
    if (notice->kind == bootstrap::Notice::Kind::failed) {
      failures_.try_emplace(notice->communicator, std::move(*notice));
      continue;
    }
    const bool left = notice->kind == bootstrap::Notice::Kind::left;
    gone_.try_emplace(notice->rank, Gone{left, left ? "destroyed its communicator" : "died", Clock::now()});
  }
  if (!session_->hub_has_ended()) return;
  for (const auto& [rank, process] : processes_)
    if (!gone_.contains(rank) && has_ended(process))
      gone_.emplace(rank, Gone{true, "ended its process", Clock::now()});
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
