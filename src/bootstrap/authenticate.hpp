/// \file
/// Mutual proof that both ends of a fresh connection know the secret, before anything else is read from it.
///
///     acceptor  -> connector   challenge A (32 random bytes)
///     connector -> acceptor    challenge C (32), Hello (16), HMAC(secret, "tutti connect" A C Hello) (32)
///     acceptor  -> connector   HMAC(secret, "tutti accept" A C Hello) (32), or 32 zeros: refused
///
/// The labels bind a proof to its role, the challenges to this connection, so none can be reflected or
/// replayed. It keeps out whoever does not know the secret; it does not encrypt or protect what follows from
/// somebody on the path.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/deadline.hpp"
#include "base/fork_guard.hpp"
#include "bootstrap/session.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::bootstrap {

/// What a connecting rank says about itself once it is believed. 16 bytes on the wire, covered by the HMAC.
struct Hello {
  Rank rank = -1;
  std::uint32_t size = 0;     ///< of its group
  std::uint64_t purpose = 0;  ///< the hub: 0; transports: which channel and stream
};

/// The accepting end, as a non-blocking state machine: a stranger that stays silent or sends garbage holds up
/// nobody. Reads at most the fixed size of the handshake.
class Accepting {
 public:
  Accepting(FileDescriptor connection, const Secret& secret, std::chrono::milliseconds timeout);
  enum class State : std::uint8_t {
    pending,
    authenticated,
    refused,  ///< it claimed to know the secret, and does not
    gone,     ///< closed, or silent until the deadline
  };
  /// Reads and writes what it can.
  State advance();
  [[nodiscard]] const Deadline& deadline() const { return deadline_; }  ///< `gone` once passed and advanced
  [[nodiscard]] int fd() const { return connection_.get(); }
  [[nodiscard]] const Hello& hello() const { return hello_; }  ///< after `authenticated`
  FileDescriptor take() { return connection_.release(); }      ///< after `authenticated`

 private:
  PrivateDescriptor connection_;
  Secret secret_;
  Deadline deadline_;
  Hello hello_;
  std::array<std::byte, 112> buffer_{};  ///< the own challenge (later the own proof), then what was received
  std::size_t sent_ = 0, received_ = 0;
};

/// Whether somebody listens at an address.
enum class Listening : std::uint8_t {
  /// A refused connection is tried again, and so is, for a second, one whose secret was refused.
  soon,
  /// A refused connection says that nobody does any more; a host that cannot be reached is tried for a while.
  since_before,
};

/// The connecting end: connects to a numeric address, proves, and checks the other side's proof. Blocking,
/// bounded by the limit. An attempt is given up when the other side's first word takes longer than
/// `patience`, which is doubled for the next one. Not later: once it has this rank's claim, the other side
/// may count the connection as made; so its answer to that is awaited for half a second beyond the limit.
/// Throws Error: timeout, peer_lost (see Listening), unauthorized, system, and what the limit's check throws.
FileDescriptor connect_authenticated(const std::string& address, std::uint16_t port, const Secret& secret,
                                     const Hello& hello, const Limit& limit,
                                     Listening listening = Listening::soon,
                                     std::chrono::milliseconds patience = std::chrono::milliseconds::max());

}  // namespace tutti::bootstrap
