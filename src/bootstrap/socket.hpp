/// \file
/// TCP sockets to and at numeric addresses. All are close-on-exec and non-blocking; none raises SIGPIPE.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/deadline.hpp"
#include "base/file_descriptor.hpp"

namespace tutti::bootstrap {

/// A numeric address ("10.0.0.1", "::1", "fe80::1%eth0") and a port.
struct Endpoint {
  std::string address;
  std::uint16_t port = 0;
};

/// "10.0.0.1:80", "[::1]:80".
std::string to_string(const Endpoint& endpoint);

/// Of an address family. Throws Error(system).
FileDescriptor open_socket(int family);

/// How long a port that is in use is waited for.
inline constexpr std::chrono::milliseconds port_patience{1000};
/// Listens at that address only; port 0: the system chooses. Waits for a port that is in use. Throws
/// Error(invalid_argument) for text that is no numeric address, Error(system).
FileDescriptor listen_at(const Endpoint& endpoint, std::chrono::milliseconds patience = port_patience);

/// How long to wait, and whom to ask meanwhile.
struct Limit {
  // NOLINTNEXTLINE(google-explicit-constructor): most limits are but a deadline
  Limit(const Deadline& by, std::function<void()> asking = {}) : deadline(by), check(std::move(asking)) {}

  Deadline deadline;
  std::function<void()> check;  ///< every 100 ms or so; may throw, which ends the wait
};

/// A connection waiting at a listener; none: an empty descriptor and errno says why.
FileDescriptor accept_from(int listener);

/// One attempt. Returns nothing and sets `errno` when it failed in a way that may pass (nobody listens yet,
/// reset; ETIMEDOUT: no answer, by the deadline at the latest). Throws Error(invalid_argument, system) when
/// it may not.
std::optional<FileDescriptor> try_connect(const Endpoint& endpoint, const Limit& limit);

/// Small messages at once, and a dead host noticed within about 10 s of silence.
void tune(int socket);

Endpoint local_endpoint(int socket);
Endpoint remote_endpoint(int socket);

/// Sleeps until one of `events` (POLLIN, POLLOUT) or an error holds; false after the deadline.
bool wait_for(int descriptor, short events, const Limit& limit);

/// Sends what fits, or receives what is there. Bytes moved; 0 when it would block; nothing when the
/// connection is gone (for receive: also when the peer closed).
std::optional<std::size_t> send_some(int socket, std::span<const std::byte> data);
std::optional<std::size_t> receive_some(int socket, std::span<std::byte> into);

}  // namespace tutti::bootstrap
