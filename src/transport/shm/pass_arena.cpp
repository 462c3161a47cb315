// The memfd travels over a Unix socket; /dev/shm, which is 64 MB in containers, is not involved.
#include <map>
#include <mutex>

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
};
PerProcess<Registry> registry_of_process;

}  // namespace

void ArenaServer::serve(const Arena& arena, Processes waiting, std::chrono::milliseconds timeout,
                        const std::function<void()>& check) {
  const Deadline deadline(timeout);
  while (!waiting.empty()) {
    const FileDescriptor connection = listener_.accept(deadline, check);
    if (!connection) {
      std::vector<Rank> missing;
      for (const auto& [process, ranks] : waiting) missing.insert(missing.end(), ranks.begin(), ranks.end());
      throw nothing_from(std::move(missing), "did not fetch the shared memory of this host", timeout);
    }
    talk_checking([&] { send_descriptor(connection.get(), arena.fd()); }, check);
    waiting.erase(process_of(connection.get()));
  }
}

void publish_arena(const Key& key, const std::shared_ptr<Arena>& arena) {
  auto& [mutex, arenas] = registry_of_process.get();
  const std::lock_guard lock(mutex);
  std::erase_if(arenas, [](const auto& entry) { return entry.second.expired(); });
  arenas[key] = arena;
}

std::shared_ptr<Arena> attach_arena(const Key& key, int ranks, Rank holder, std::chrono::milliseconds timeout,
                                    const std::function<void()>& check) {
  auto& [mutex, arenas] = registry_of_process.get();
  const std::lock_guard lock(mutex);
  if (auto found = arenas.find(key); found != arenas.end())
    if (auto arena = found->second.lock()) return arena;
  FileDescriptor memory;
  talk_checking(
      [&] {
        const Deadline deadline(timeout);
        const FileDescriptor connection = connect_to(key, holder);
        if (!readable_checking(connection.get(), deadline, check))
          throw nothing_from({holder}, "did not pass the shared memory of this host", timeout);
        memory = receive_descriptor(connection.get()).first;
        if (!memory)
          throw Error(
              ErrorCode::unauthorized,
              "rank " + std::to_string(holder) + ", which holds the shared memory of this host, refused it",
              {holder});
      },
      check);
  auto arena = std::make_shared<Arena>(std::move(memory), ranks);
  arenas[key] = arena;
  return arena;
}

}  // namespace tutti::transport::shm
