#include "transport/tcp/dial.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <optional>
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

PrivateDescriptor dial(const bootstrap::Endpoint& listener, const bootstrap::Secret& secret,
                       const bootstrap::Hello& hello, const bootstrap::Limit& limit) {
  PrivateDescriptor socket(bootstrap::connect_authenticated(listener.address, listener.port, secret, hello,
                                                            limit, bootstrap::Listening::since_before,
                                                            first_patience));
  const auto verdict = read_verdict(socket.get(), limit);
  if (!verdict)
    throw Error(ErrorCode::peer_lost,
                fmt::format("nobody keeps connections of this communicator at {} any more",
                            bootstrap::to_string(listener)));
  return *verdict == Verdict::crossed ? PrivateDescriptor() : std::move(socket);
}

}  // namespace tutti::transport::tcp
