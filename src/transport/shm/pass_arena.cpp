// The memfd travels over a Unix socket; /dev/shm, which is 64 MB in containers, is not involved.
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "base/fork_guard.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/descriptor.hpp"

namespace tutti::transport::shm {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<Arena>> arenas;
  std::set<Key> fetching;
  std::condition_variable fetched;
};
PerProcess<Registry> registry_of_process;

Error nothing_passed(Rank holder, std::chrono::milliseconds timeout) {
  return nothing_from({holder}, "did not pass the shared memory of this host", timeout);
}

/// One rank of this process at a time fetches an arena: the others of its communicator wait for it, those of
/// other communicators do not.
class Fetch {
 public:
  /// Throws Error(timeout), and what `check` does.
  Fetch(const Key& key, Rank holder, std::chrono::milliseconds timeout, const std::function<void()>& check)
      : registry_(registry_of_process.get()), key_(key), deadline_(timeout) {
    constexpr std::chrono::milliseconds look_interval{50};
    std::unique_lock lock(registry_.mutex);
    while (!registry_.fetched.wait_for(
        lock, std::min(look_interval, std::chrono::milliseconds(deadline_.poll_ms())),
        [this] { return !registry_.fetching.contains(key_); })) {
      if (deadline_.passed()) throw nothing_passed(holder, timeout);
      lock.unlock();
      if (check) check();
      lock.lock();
    }
    registry_.fetching.insert(key_);
  }
  Fetch(const Fetch&) = delete;
  Fetch& operator=(const Fetch&) = delete;
  ~Fetch() {
    const std::lock_guard lock(registry_.mutex);
    registry_.fetching.erase(key_);
    registry_.fetched.notify_all();
  }
  /// For all of it.
  [[nodiscard]] const Deadline& deadline() const { return deadline_; }
  /// What this process has already.
  [[nodiscard]] std::shared_ptr<Arena> known() const {
    const std::lock_guard lock(registry_.mutex);
    const auto found = registry_.arenas.find(key_);
    return found == registry_.arenas.end() ? nullptr : found->second.lock();
  }

 private:
  Registry& registry_;
  const Key& key_;
  Deadline deadline_;
};

std::vector<Rank> ranks_of(const Processes& processes) {
  std::vector<Rank> all;
  for (const auto& [process, ranks] : processes) all.insert(all.end(), ranks.begin(), ranks.end());
  return all;
}

/// `numbered`: what shows that one of `ranks` is in another process-id namespace.
[[noreturn]] void throw_elsewhere(std::vector<Rank> ranks, const std::string& numbered) {
  std::ranges::sort(ranks);
  const std::string text = fmt::format(
      "a rank of this host ({}) {}: it is in another process-id namespace, which ranks do not see where "
      "/proc is not mounted; mount it, or start them in one such namespace",
      fmt::join(ranks, " or "), numbered);
  throw Error(ErrorCode::unsupported, text, std::move(ranks));
}

}  // namespace

void serve_arena(Listener& listener, const Arena& arena, Processes waiting, std::chrono::milliseconds timeout,
                 const std::function<void()>& check) {
  const bootstrap::Limit limit(Deadline(timeout), check);
  const Processes all = waiting;
  while (!waiting.empty()) {
    const FileDescriptor connection = listener.accept(limit);
    if (!connection)
      throw nothing_from(ranks_of(waiting), "did not fetch the shared memory of this host", timeout);
    const pid_t process = process_of(connection.get());
    if (!all.contains(process))  // it knows the key, and so belongs to one of those
      throw_elsewhere(
          ranks_of(waiting),
          fmt::format("has another process id in its own eyes than here, where it is {} (0: none)", process));
    talk_checking([&] { send_descriptor(connection.get(), arena.fd()); }, check);
    waiting.erase(process);
  }
}

void publish_arena(const Key& key, const std::shared_ptr<Arena>& arena) {
  Registry& registry = registry_of_process.get();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.arenas, [](const auto& entry) { return entry.second.expired(); });
  registry.arenas[key] = arena;
}

void require_arena(const Key& key, Rank holder, const std::function<void()>& check) {
  Registry& registry = registry_of_process.get();
  talk_checking(
      [&] {
        const std::lock_guard lock(registry.mutex);
        if (registry.arenas.contains(key)) return;  // be it no longer: who fetches it hears why
        throw_elsewhere({holder},
                        fmt::format("has the process id {} in its own eyes, as this one", ::getpid()));
      },
      check);
}

std::shared_ptr<Arena> attach_arena(const Key& key, int ranks, Rank holder, std::chrono::milliseconds timeout,
                                    const std::function<void()>& check) {
  const Fetch fetch(key, holder, timeout, check);
  if (auto arena = fetch.known()) return arena;
  const bootstrap::Limit limit(fetch.deadline(), check);
  FileDescriptor memory;
  talk_checking(
      [&] {
        const FileDescriptor connection = connect_to(key, holder, limit);
        if (!bootstrap::wait_for(connection.get(), POLLIN, limit)) throw nothing_passed(holder, timeout);
        memory = receive_descriptor(connection.get()).first;
        if (!memory)
          throw Error(
              ErrorCode::unauthorized,
              "rank " + std::to_string(holder) + ", which holds the shared memory of this host, refused it",
              {holder});
      },
      check);
  auto arena = std::make_shared<Arena>(std::move(memory), ranks);
  publish_arena(key, arena);
  return arena;
}

}  // namespace tutti::transport::shm
