#include "bootstrap/environment.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>

#include <tutti/error.hpp>

#include "base/fork_guard.hpp"
#include "bootstrap/frame.hpp"
#include "bootstrap/launcher.hpp"

namespace tutti::bootstrap {
namespace {

/// Whom this process was started by. In a child made by fork it knows the parent.
struct Found {
  std::unique_ptr<Launcher> launcher;
  std::uint64_t generation = 0;  ///< of forks
};
std::atomic<Found*> launched_by{nullptr};
/// In which generation of forks a launcher is being looked for, or was found. A child made meanwhile has the
/// parent's connection to it.
constexpr auto nowhere = static_cast<std::uint64_t>(-1);
std::atomic<std::uint64_t> looked_for_in{nowhere};

/// Threads take turns at what waits for other ranks, for no longer than they have. (ThreadSanitizer of GCC 12
/// does not see who has a std::timed_mutex.)
class Turns {
 public:
  [[nodiscard]] bool take(const Deadline& deadline) {
    std::unique_lock lock(mutex_);
    const bool mine = over_.wait_until(lock, deadline.end(), [this] { return !taken_; });
    taken_ = true;
    return mine;
  }
  void give() {
    {
      const std::lock_guard lock(mutex_);
      taken_ = false;
    }
    over_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool taken_ = false;
};

class Turn {
 public:
  /// Throws Error(timeout): another thread of this process still `does` it.
  Turn(Turns& turns, const Deadline& deadline, const char* does) : turns_(turns) {
    if (!turns_.take(deadline))
      throw Error(ErrorCode::timeout, std::string("another thread of this process still ") + does);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { turns_.give(); }

 private:
  Turns& turns_;
};

struct Agreed {
  Turns asking;                ///< the launcher
  std::mutex mutex;            ///< of what follows; never held for long
  std::optional<UniqueId> id;  ///< agreed on and not yet used
};
PerProcess<Agreed> agreed;

/// To join: two threads that do so with one id at once look like two processes that have the same rank.
PerProcess<Turns> turns_to_join;

/// At the end of the process, not before: launchers take a process that ends without a goodbye for a crashed
/// one, one that said it for finished, and MPI in the same program may still use them in between. Not while
/// another thread still waits for an answer.
void say_goodbye() {
  const Found* const now = launched_by.load();
  if (now == nullptr || now->generation != fork_generation()) return;  // the parent will
  auto& asking = agreed.get().asking;
  if (!asking.take(Deadline(std::chrono::milliseconds(0)))) return;
  delete launched_by.exchange(nullptr);
  asking.give();
}

[[noreturn]] void throw_forked() {
  throw Error(ErrorCode::forked,
              "the launcher knows the parent of this process, not a child made by fork; a child must form "
              "its own group");
}

/// In a turn at asking.
Found& find_once(const Deadline& deadline) {
  if (Found* const now = launched_by.load()) return *now;
  install_fork_guard();
  const auto mine = fork_generation();
  if (auto before = nowhere; !looked_for_in.compare_exchange_strong(before, mine) && before != mine)
    throw_forked();
  try {
    auto fresh = std::make_unique<Found>(Found{find_launcher(deadline), mine});
    std::atexit(say_goodbye);
    launched_by.store(fresh.get());
    return *fresh.release();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) looked_for_in.store(nowhere);  // else it still may answer here
    throw;
  }
}

}  // namespace

void mark_used(const UniqueId& id) {
  auto& mine = agreed.get();
  const std::lock_guard lock(mine.mutex);
  if (mine.id == id) mine.id.reset();
}

Launch launch_from_environment(const std::string& interface, std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  auto& mine = agreed.get();
  const Turn asking(mine.asking, deadline, "asks the launcher");
  const Found& from = find_once(deadline);
  auto launch = from.launcher->identity();
  if (launch.size == 1) return launch;
  if (from.generation != fork_generation()) throw_forked();
  const auto kept = [&] {
    const std::lock_guard lock(mine.mutex);
    return mine.id;
  };
  if (const auto id = kept()) {
    launch.id = *id;
    return launch;
  }
  try {
    launch.id = from.launcher->agree(interface, deadline);
  } catch (const Error& error) {
    throw with_context(error, joining(launch.rank, launch.size) + ": ", {});
  }
  const std::lock_guard lock(mine.mutex);
  mine.id = launch.id;
  return launch;
}

std::shared_ptr<Session> join_from_environment(const std::string& interface,
                                               std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  const auto left = [&] { return std::chrono::milliseconds(deadline.poll_ms()); };
  const Turn turn(turns_to_join.get(), deadline, "joins a group of the ranks of the launcher");
  const auto launch = launch_from_environment(interface, left());
  return Session::join(launch.id, launch.rank, launch.size, left());
}

}  // namespace tutti::bootstrap
