// The memfd travels over a Unix socket; /dev/shm, which is 64 MB in containers, is not involved.
#include <map>
#include <mutex>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/descriptor.hpp"

namespace tutti::transport::shm {

namespace {

std::mutex registry_mutex;
std::map<Key, std::weak_ptr<Arena>>& registry() {
  static std::map<Key, std::weak_ptr<Arena>> arenas;
  return arenas;
}

}  // namespace

ArenaServer::ArenaServer(const Key& key) : key_(key), listener_(listen_for(key)) {}

void ArenaServer::serve(const Arena& arena, int expected, std::chrono::milliseconds timeout,
                        const std::function<void()>& check) {
  const Deadline deadline(timeout);
  while (expected > 0) {
    if (!readable_checking(listener_.get(), deadline, check))
      throw Error(ErrorCode::timeout, std::to_string(expected) +
                                          " process(es) of this host did not fetch the shared memory in " +
                                          std::to_string(timeout.count()) + " ms");
    const FileDescriptor connection = accept_from(listener_.get(), key_);
    if (!connection) continue;
    talk_checking([&] { send_descriptor(connection.get(), arena.fd()); }, check);
    --expected;
  }
}

void publish_arena(const Key& key, const std::shared_ptr<Arena>& arena) {
  const std::lock_guard lock(registry_mutex);
  std::erase_if(registry(), [](const auto& entry) { return entry.second.expired(); });
  registry()[key] = arena;
}

std::shared_ptr<Arena> attach_arena(const Key& key, int ranks, std::chrono::milliseconds timeout,
                                    const std::function<void()>& check) {
  const std::lock_guard lock(registry_mutex);
  if (auto found = registry().find(key); found != registry().end())
    if (auto arena = found->second.lock()) return arena;
  FileDescriptor memory;
  talk_checking(
      [&] {
        const Deadline deadline(timeout);
        const FileDescriptor connection = connect_to(key);
        if (!readable_checking(connection.get(), deadline, check))
          throw Error(ErrorCode::timeout,
                      "the rank of this host that holds the shared memory did not answer");
        memory = receive_descriptor(connection.get()).first;
        if (!memory)
          throw Error(ErrorCode::unauthorized,
                      "the rank of this host that holds the shared memory refused it");
      },
      check);
  auto arena = std::make_shared<Arena>(std::move(memory), ranks);
  registry()[key] = arena;
  return arena;
}

}  // namespace tutti::transport::shm
