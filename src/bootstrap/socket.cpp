#include "bootstrap/socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/fork_guard.hpp"
#include "base/system_error.hpp"
#include "base/uninterrupted.hpp"
#include "topology/interface.hpp"

namespace tutti::bootstrap {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress parse(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (int code =
          ::getaddrinfo(endpoint.address.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
      code != 0)
    throw Error(ErrorCode::invalid_argument,
                "\"" + endpoint.address + "\" is not a numeric address: " + ::gai_strerror(code));
  SocketAddress address;
  address.size = found->ai_addrlen;
  std::copy_n(reinterpret_cast<const std::byte*>(found->ai_addr), found->ai_addrlen,
              reinterpret_cast<std::byte*>(&address.storage));
  ::freeaddrinfo(found);
  return address;
}

Endpoint format(SocketAddress& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(address.get(), address.size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  return {host.data(), static_cast<std::uint16_t>(std::stoul(port.data()))};
}

void set(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof value);  // all of them only improve things
}

bool may_pass(int code) {
  return code == ECONNREFUSED || code == ECONNRESET || code == ECONNABORTED || code == ETIMEDOUT ||
         code == EHOSTUNREACH || code == EHOSTDOWN || code == EAGAIN ||
         code == EADDRNOTAVAIL;  // the last: no free local port at the moment
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  const bool six = endpoint.address.find(':') != std::string::npos;
  return (six ? "[" + endpoint.address + "]" : endpoint.address) + ":" + std::to_string(endpoint.port);
}

FileDescriptor open_socket(int family) {
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw_errno("opening a socket");
  return socket;
}

FileDescriptor listen_at(const Endpoint& endpoint, std::chrono::milliseconds patience) {
  auto address = parse(endpoint);
  auto socket = open_socket(address.storage.ss_family);
  // A port that is named may have connections of an earlier group, be it in TIME_WAIT.
  if (endpoint.port != 0) set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  // And a rank that calls before anybody listens may have it for its own end, for a moment (try_connect).
  const Deadline deadline(patience);
  while (::bind(socket.get(), address.get(), address.size) != 0) {
    if (errno != EADDRINUSE || endpoint.port == 0 || deadline.passed())
      throw_errno("listening at " + to_string(endpoint));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // Of one that the system chose, too: what is accepted inherits this, without which nobody could listen
  // there again for a minute. Before bind(2) it would let the system choose a port that others have.
  if (endpoint.port == 0) set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::listen(socket.get(), SOMAXCONN) != 0) throw_errno("listening at " + to_string(endpoint));
  return socket;
}

FileDescriptor accept_from(int listener) {
  return FileDescriptor(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

std::optional<FileDescriptor> try_connect(const Endpoint& endpoint, const Limit& limit) {
  auto address = parse(endpoint);
  PrivateDescriptor socket(open_socket(address.storage.ss_family));
  int code = 0;
  if (::connect(socket.get(), address.get(), address.size) != 0) {
    if (errno == EINPROGRESS) {
      socklen_t size = sizeof code;
      if (wait_for(socket.get(), POLLOUT, limit))
        ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size);
      else
        code = ETIMEDOUT;
    } else {
      code = errno;
    }
  }
  // With no listener at a port of the ephemeral range, TCP may connect a socket to itself. Closed in the
  // usual way it would keep the port for a minute (TIME_WAIT), and rank 0 could not listen there.
  if (code == 0 && to_string(local_endpoint(socket.get())) == to_string(endpoint)) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    code = ECONNREFUSED;
  }
  if (code == 0) return socket.release();
  if (may_pass(code)) {
    socket.reset();
    errno = code;
    return std::nullopt;
  }
  const bool own_is_down = code == ENETUNREACH && topology::is_loopback(endpoint.address);
  throw_errno("connecting to " + to_string(endpoint) +
                  (own_is_down ? ", by the loopback interface, which is down (ip link set lo up)" : ""),
              code);
}

void tune(int socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 5);
  // This takes a window that stays closed for a dead host, too (tcp(7)), and a rank may compute for long
  // without reading its lifeline. So what is said often, that communicators are closed, goes to their members
  // only: no rank is sent more of it than it has communicators, times their other members.
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

Endpoint local_endpoint(int socket) {
  SocketAddress address;
  if (::getsockname(socket, address.get(), &address.size) != 0) return {};
  return format(address);
}

Endpoint remote_endpoint(int socket) {
  SocketAddress address;
  if (::getpeername(socket, address.get(), &address.size) != 0) return {};
  return format(address);
}

bool wait_for(int descriptor, short events, const Limit& limit) {
  constexpr int look_ms = 100;
  for (;;) {
    pollfd one{descriptor, events, 0};
    const int left_ms = limit.deadline.poll_ms();
    const int ready = ::poll(&one, 1, limit.check ? std::min(left_ms, look_ms) : left_ms);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw_errno("poll");
    if (limit.deadline.passed()) return false;
    if (limit.check) limit.check();
  }
}

std::optional<std::size_t> send_some(int socket, std::span<const std::byte> data) {
  const auto sent =
      uninterrupted([&] { return ::send(socket, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT); });
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
  return std::nullopt;
}

std::optional<std::size_t> receive_some(int socket, std::span<std::byte> into) {
  const auto received = uninterrupted([&] { return ::recv(socket, into.data(), into.size(), MSG_DONTWAIT); });
  if (received > 0) return static_cast<std::size_t>(received);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  return std::nullopt;
}

}  // namespace tutti::bootstrap
