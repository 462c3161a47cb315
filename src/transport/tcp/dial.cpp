#include "transport/tcp/dial.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
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
  for (auto patience = first_patience;; patience *= 2) {
    const std::chrono::milliseconds left(limit.deadline.poll_ms());
    const bootstrap::Limit attempt(Deadline(std::min(patience, left)), limit.check);
    try {
      auto socket = bootstrap::connect_authenticated(listener.address, listener.port, secret, hello, attempt,
                                                     bootstrap::Listening::since_before);
      const auto verdict = read_verdict(socket.get(), attempt);
      if (!verdict)
        throw Error(ErrorCode::peer_lost,
                    fmt::format("nobody keeps connections of this communicator at {} any more",
                                bootstrap::to_string(listener)));
      if (*verdict == Verdict::crossed) return std::nullopt;
      return socket;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::timeout || limit.deadline.passed()) throw;
    }
    if (limit.check) limit.check();
  }
}

}  // namespace tutti::transport::tcp
