#include "communicator/watch.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/process.hpp"

namespace tutti {

std::string detail::named(Rank rank, Rank world, const std::string& more) {
  std::string note = world == rank ? "" : "world rank " + std::to_string(world);
  if (!note.empty() && !more.empty()) note += ", ";
  note += more;
  return "rank " + std::to_string(rank) + (note.empty() ? "" : " (" + note + ")");
}

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
    if (notice->kind == bootstrap::Notice::Kind::aborted || notice->kind == bootstrap::Notice::Kind::failed) {
      remember(std::move(*notice));
      continue;
    }
    if (notice->kind == bootstrap::Notice::Kind::closed) {
      if (const auto found = open_.find(notice->communicator); found != open_.end())
        found->second.try_emplace(notice->rank, Gone{true, "destroyed its communicator", Clock::now()});
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

void Watch::remember(bootstrap::Notice notice) {
  const std::uint64_t communicator = notice.communicator;
  if (notice.kind == bootstrap::Notice::Kind::aborted) aborts_.try_emplace(communicator, notice);
  if (!failures_.try_emplace(communicator, std::move(notice)).second) return;
  heard_.push_back(communicator);
  if (heard_.size() <= most_heard) return;
  const auto oldest =
      std::ranges::find_if(heard_, [this](std::uint64_t one) { return !open_.contains(one); });
  if (oldest == heard_.end()) return;
  failures_.erase(*oldest);
  aborts_.erase(*oldest);
  heard_.erase(oldest);
}

std::optional<Watch::Gone> Watch::gone(Rank world) {
  const std::lock_guard lock(mutex_);
  const auto found = gone_.find(world);
  return found == gone_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Watch::Gone> Watch::gone(Rank world, std::uint64_t communicator) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto open = open_.find(communicator); open != open_.end())
      if (const auto closed = open->second.find(world); closed != open->second.end()) return closed->second;
  }
  return gone(world);
}

void Watch::open(std::uint64_t communicator) {
  const std::lock_guard lock(mutex_);
  open_.try_emplace(communicator);
}

void Watch::close(std::uint64_t communicator) {
  const std::lock_guard lock(mutex_);
  open_.erase(communicator);
}

std::optional<bootstrap::Notice> Watch::failure(std::uint64_t communicator) {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(communicator);
  return found == failures_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<bootstrap::Notice> Watch::abort(std::uint64_t communicator) {
  const std::lock_guard lock(mutex_);
  const auto found = aborts_.find(communicator);
  return found == aborts_.end() ? std::nullopt : std::optional(found->second);
}

Membership::Membership(const std::shared_ptr<Watch>& watch, std::uint64_t communicator, Rank me,
                       const std::vector<Rank>& world)
    : watch_(watch), communicator_(communicator), me_(me), world_(world) {
  watch_->open(communicator_);
}

Membership::~Membership() {
  if (generation_ != fork_generation()) return;  // a thread that is not in this child may hold the lock
  watch_->close(communicator_);
  if (!begun_) return;
  // Calls fail by the failure, which comes first and says why. Windows outlive that, and go by the closing,
  // or by the session's end.
  if (std::uncaught_exceptions() > exceptions_) announce_unwinding();
  const bool session_says_it = watch_.use_count() == 1;
  if (!session_says_it) watch_->session().announce_closed(communicator_, world_);
}

void Membership::announce_unwinding() const {
  try {
    const Error why(ErrorCode::peer_lost,
                    detail::named(me_, world_[static_cast<std::size_t>(me_)]) +
                        " destroyed its communicator while an exception passed; make a new one without it "
                        "to go on",
                    {me_});
    watch_->session().announce_failure(communicator_, why);
  } catch (const std::bad_alloc&) {
    // It is closed, at least.
  }
}

}  // namespace tutti
