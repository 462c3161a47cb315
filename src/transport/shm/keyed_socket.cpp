#include "transport/shm/keyed_socket.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <string_view>
#include <utility>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "base/system_error.hpp"
#include "base/uninterrupted.hpp"

namespace tutti::transport::shm {

namespace {

// The socket's name is visible to every user of the machine, so it must not contain the key itself.
std::pair<sockaddr_un, socklen_t> address_of(const Key& key) noexcept {
  std::array<unsigned char, 16> digest{};
  crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const unsigned char*>(key.data()),
                     key.size(), nullptr, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  constexpr std::string_view prefix = "tutti-";
  constexpr std::size_t digits = 2 * sizeof digest;
  char* const hex = std::ranges::copy(prefix, address.sun_path + 1).out;
  sodium_bin2hex(hex, digits + 1, digest.data(), digest.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + prefix.size() + digits)};
}

ucred peer_of(int connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) throw_errno("SO_PEERCRED");
  return peer;
}

// The other end drops whom it takes for another user, without a word.
void require_same_user(int connection, Rank holder) {
  const uid_t theirs = peer_of(connection).uid, mine = ::geteuid();
  if (theirs == mine) return;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("this rank runs as user {}, rank {} of the same host as user {} (65534: as one that "
                  "this rank's user namespace does not know), and they share no memory; start all "
                  "ranks of a host as one user, in containers with the same map of user ids",
                  mine, holder, theirs),
      {holder});
}

enum class Told : std::uint8_t { nothing, key, other };
Told told_by(int connection, const Key& key) {
  Key told{};
  const auto got = uninterrupted([&] { return ::recv(connection, told.data(), told.size(), MSG_DONTWAIT); });
  if (got < 0 && errno == EAGAIN) return Told::nothing;
  const bool whole = got == static_cast<ssize_t>(told.size());
  return whole && sodium_memcmp(told.data(), key.data(), key.size()) == 0 ? Told::key : Told::other;
}

constexpr std::chrono::milliseconds check_interval{50};
Deadline next_check(const Deadline& deadline) {
  return Deadline(std::min(check_interval, std::chrono::milliseconds(deadline.poll_ms())));
}

// While as many call as may wait there, connect(2) does, for as long as sending may take.
void connect_by(int connection, const Key& key, Rank holder, const bootstrap::Limit& limit) {
  const auto named = address_of(key);
  const auto* const to = reinterpret_cast<const sockaddr*>(&named.first);
  for (;;) {
    const timeval longest{.tv_sec = 0, .tv_usec = 1000L * std::max(1, next_check(limit.deadline).poll_ms())};
    if (::setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest) != 0)
      throw_errno("SO_SNDTIMEO");
    if (::connect(connection, to, named.second) == 0) return;
    if (errno != EAGAIN && errno != EINTR)
      throw_errno(fmt::format("cannot reach rank {} of this host over its Unix socket", holder));
    if (limit.deadline.passed())
      throw Error(ErrorCode::timeout,
                  fmt::format("rank {} of this host did not accept a connection to its Unix socket in time, "
                              "and as many wait there as may (sysctl net.core.somaxconn)",
                              holder),
                  {holder});
    if (limit.check) limit.check();
  }
}

}  // namespace

Listener::Listener(const Key& key)
    : key_(key), listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (!listener_) throw_errno("cannot make a Unix socket to ranks of this host");
  const auto [address, length] = address_of(key);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(listener_.get(), SOMAXCONN) != 0)
    throw_errno("cannot listen on an abstract Unix socket");
}

FileDescriptor Listener::accept(const bootstrap::Limit& limit) {
  for (;;) {
    std::vector<pollfd> events{{listener_.get(), POLLIN, 0}};
    for (const auto& caller : callers_) events.push_back({caller.get(), POLLIN, 0});
    const Deadline next = next_check(limit.deadline);
    uninterrupted([&] { return ::poll(events.data(), events.size(), next.poll_ms()); });
    const bool room = take_callers();
    if (auto caller = first_that_knows()) return caller;
    if (!room && !callers_.empty()) callers_.erase(callers_.begin());  // who has been silent for longest
    if (limit.deadline.passed()) return {};
    if (limit.check) limit.check();
  }
}

bool Listener::take_callers() {
  constexpr std::size_t most_silent = 256;  // strangers' descriptors must not be all that there may be
  while (callers_.size() < most_silent) {
    FileDescriptor caller(
        uninterrupted([&] { return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC); }));
    const bool no_room = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (!caller && no_room && callers_.empty()) throw_errno("cannot accept a rank of this host");
    if (!caller) return !no_room;
    if (peer_of(caller.get()).uid == ::geteuid()) callers_.push_back(std::move(caller));
  }
  return false;
}

FileDescriptor Listener::first_that_knows() {
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    const Told told = told_by(caller->get(), key_);
    if (told == Told::nothing) {
      ++caller;
      continue;
    }
    FileDescriptor known = std::move(*caller);
    caller = callers_.erase(caller);
    if (told == Told::key) return known;
  }
  return {};
}

FileDescriptor call(const Key& key, Rank holder, const bootstrap::Limit& limit) {
  FileDescriptor connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection) throw_errno("cannot make a Unix socket to ranks of this host");
  connect_by(connection.get(), key, holder, limit);
  require_same_user(connection.get(), holder);
  return connection;
}

FileDescriptor connect_to(const Key& key, Rank holder, const bootstrap::Limit& limit) {
  FileDescriptor connection = call(key, holder, limit);
  const auto sent =
      uninterrupted([&] { return ::send(connection.get(), key.data(), key.size(), MSG_NOSIGNAL); });
  if (sent != static_cast<ssize_t>(key.size()))
    throw_errno(fmt::format("cannot talk to rank {} of this host over its Unix socket", holder));
  return connection;
}

pid_t process_of(int connection) { return peer_of(connection).pid; }

int Bell::fd() noexcept {
  if (socket_) return socket_.get();
  try {
    FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto [address, length] = address_of(mine_);
    if (socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0)
      socket_ = PrivateDescriptor(std::move(socket));
  } catch (const std::exception&) {  // no memory to guard it
  }
  return socket_.get();
}

// Those of strangers may come without an end.
void Bell::clear() const noexcept {
  std::byte byte{};
  for (int most = 16; most > 0 && ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT) >= 0;) --most;
}

// Where there is no room for one more, enough have come to wake whoever it is.
void Bell::ring(const Key& key) noexcept {
  const std::byte byte{};
  const auto [address, length] = address_of(key);
  ::sendto(fd(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), length);
}

}  // namespace tutti::transport::shm
