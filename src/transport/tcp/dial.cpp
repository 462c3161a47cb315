#include "transport/tcp/dial.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>

#include <tutti/error.hpp>

#include "transport/tcp/inbox.hpp"

namespace tutti::transport::tcp {

namespace {

constexpr std::chrono::milliseconds first_patience{500};  ///< for one attempt; then twice as long

/// Empty when it hung up: it keeps no connection of this communicator.
std::optional<Verdict> read_verdict(int socket, const bootstrap::Limit& limit) {
  Verdict verdict{};
  for (;;) {
    const auto got = bootstrap::receive_some(socket, std::as_writable_bytes(std::span(&verdict, 1)));
    if (!got) return std::nullopt;
    if (*got == 1) return verdict;
    if (!bootstrap::wait_for(socket, POLLIN, limit))
      throw Error(ErrorCode::timeout, "the listener did not say whether it keeps the connection");
  }
}

}  // namespace

std::optional<FileDescriptor> dial(const bootstrap::Endpoint& listener, const bootstrap::Secret& secret,
                                   const bootstrap::Hello& hello, const bootstrap::Limit& limit) {
  const auto gone = [&listener](const char* what) {
    return Error(ErrorCode::peer_lost,
                 fmt::format("{} at {} any more", what, bootstrap::to_string(listener)));
  };
  for (auto patience = first_patience;; patience *= 2) {
    const std::chrono::milliseconds left(limit.deadline.poll_ms());
    const bootstrap::Limit attempt(Deadline(std::min(patience, left)), limit.check);
    try {
      // It may go at any time, so this is asked again before every attempt.
      if (!bootstrap::try_connect(listener, attempt) && errno == ECONNREFUSED) throw gone("nobody listens");
      auto socket = bootstrap::connect_authenticated(listener.address, listener.port, secret, hello, attempt);
      const auto verdict = read_verdict(socket.get(), attempt);
      if (!verdict) throw gone("nobody keeps connections of this communicator");
      if (*verdict == Verdict::crossed) return std::nullopt;
      return socket;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::timeout || limit.deadline.passed()) throw;
    }
    if (limit.check) limit.check();
  }
}

}  // namespace tutti::transport::tcp
