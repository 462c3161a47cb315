// The memfd travels as SCM_RIGHTS (unix(7)); /dev/shm, which is 64 MB in containers, is not involved.
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "base/deadline.hpp"
#include "base/system_error.hpp"
#include "transport/shm/arena.hpp"

namespace tutti::transport::shm {

namespace {

// The socket's name is visible to every user of the machine, so it must not contain the key itself.
std::pair<sockaddr_un, socklen_t> address_of(const Key& key) {
  std::array<unsigned char, 16> digest{};
  crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const unsigned char*>(key.data()),
                     key.size(), nullptr, 0);
  std::array<char, 33> hex{};
  sodium_bin2hex(hex.data(), hex.size(), digest.data(), digest.size());
  const std::string name = "tutti-" + std::string(hex.data());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

bool readable(int fd, const Deadline& deadline) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, deadline.poll_ms()) > 0;
}

bool same_user(int connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

bool knows(int connection, const Key& key) {
  Key told{};
  return readable(connection, Deadline(std::chrono::milliseconds(200))) &&
         ::recv(connection, told.data(), told.size(), MSG_DONTWAIT) == static_cast<ssize_t>(told.size()) &&
         sodium_memcmp(told.data(), key.data(), key.size()) == 0;
}

// Asks `check` now and then whether those who are waited for still live.
bool readable_checking(int fd, const Deadline& deadline, const std::function<void()>& check) {
  constexpr std::chrono::milliseconds check_interval{50};
  while (!readable(fd, Deadline(std::min(check_interval, std::chrono::milliseconds(deadline.poll_ms()))))) {
    if (deadline.passed()) return false;
    if (check) check();
  }
  return true;
}

union ControlBuffer {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

void send_descriptor(int connection, int fd) {
  char byte = 0;
  iovec data{&byte, 1};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (::sendmsg(connection, &message, MSG_NOSIGNAL) != 1)
    throw_errno("cannot pass shared memory to a rank of this host");
}

FileDescriptor receive_descriptor(int connection) {
  char byte = 0;
  iovec data{&byte, 1};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const auto got = ::recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = got == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return FileDescriptor(fd);
}

std::mutex registry_mutex;
std::map<Key, std::weak_ptr<Arena>>& registry() {
  static std::map<Key, std::weak_ptr<Arena>> arenas;
  return arenas;
}

}  // namespace

ArenaServer::ArenaServer(const Key& key)
    : key_(key), listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  if (!listener_) throw_errno("socket");
  const auto [address, length] = address_of(key);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(listener_.get(), 64) != 0)
    throw_errno("cannot listen on an abstract Unix socket");
}

void ArenaServer::serve(const Arena& arena, int expected, std::chrono::milliseconds timeout,
                        const std::function<void()>& check) {
  const Deadline deadline(timeout);
  while (expected > 0) {
    if (!readable_checking(listener_.get(), deadline, check))
      throw Error(ErrorCode::timeout, std::to_string(expected) +
                                          " process(es) of this host did not fetch the shared memory in " +
                                          std::to_string(timeout.count()) + " ms");
    FileDescriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection || !same_user(connection.get()) || !knows(connection.get(), key_)) continue;
    send_descriptor(connection.get(), arena.fd());
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
  const Deadline deadline(timeout);
  FileDescriptor connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection) throw_errno("socket");
  const auto [address, length] = address_of(key);
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    throw_errno("cannot reach the rank of this host that holds the shared memory");
  if (::send(connection.get(), key.data(), key.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(key.size()))
    throw_errno("cannot ask for the shared memory");
  if (!readable_checking(connection.get(), deadline, check))
    throw Error(ErrorCode::timeout, "the rank of this host that holds the shared memory did not answer");
  FileDescriptor memory = receive_descriptor(connection.get());
  if (!memory)
    throw Error(ErrorCode::unauthorized, "the rank of this host that holds the shared memory refused it");
  auto arena = std::make_shared<Arena>(std::move(memory), ranks);
  registry()[key] = arena;
  return arena;
}

}  // namespace tutti::transport::shm
