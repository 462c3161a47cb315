#include "bootstrap/authenticate.hpp"

#include <poll.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>

#include "bootstrap/hmac.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::bootstrap {
namespace {

constexpr std::size_t challenge_bytes = 32, proof_bytes = 32;
constexpr std::size_t claim_bytes = challenge_bytes + sizeof(Hello) + proof_bytes;
static_assert(sizeof(Hello) == 16 && std::endian::native == std::endian::little);

constexpr int refused_pause_ms = 250;  ///< rank 0 counts those that it refuses
constexpr std::chrono::seconds longest_refusal{1}, longest_unreachable{3};
/// For the answer to a claim, beyond the limit. Who has a claim may count the connection as made, and would
/// take this rank for dead; so it may still say that it gives up, or find its group complete.
constexpr std::chrono::milliseconds answer_linger{500};

using Challenge = std::span<const std::byte, challenge_bytes>;

enum class Role : std::uint8_t { connector, acceptor };

Digest prove(const Secret& secret, Role role, Challenge acceptors, Challenge connectors, const Hello& hello) {
  return hmac(secret, role == Role::connector ? "tutti connect" : "tutti accept",
              {acceptors, connectors, std::as_bytes(std::span(&hello, 1))});
}

/// False: closed by the other side.
bool send_all(int socket, std::span<const std::byte> data, const Limit& limit) {
  while (!data.empty()) {
    const auto sent = send_some(socket, data);
    if (!sent || (*sent == 0 && !wait_for(socket, POLLOUT, limit))) return false;
    data = data.subspan(*sent);
  }
  return true;
}

bool receive_all(int socket, std::span<std::byte> into, const Limit& limit) {
  while (!into.empty()) {
    const auto received = receive_some(socket, into);
    if (!received || (*received == 0 && !wait_for(socket, POLLIN, limit))) return false;
    into = into.subspan(*received);
  }
  return true;
}

enum class Outcome : std::uint8_t { proved, closed, refused };

Outcome handshake(int socket, const Secret& secret, const Hello& hello, const Limit& first_word,
                  const Limit& limit) {
  std::array<std::byte, challenge_bytes> theirs{};
  if (!receive_all(socket, theirs, first_word)) return Outcome::closed;
  std::array<std::byte, claim_bytes> claim{};
  const auto mine = std::span(claim).first<challenge_bytes>();
  random_bytes(mine);
  std::memcpy(claim.data() + challenge_bytes, &hello, sizeof hello);
  std::ranges::copy(prove(secret, Role::connector, theirs, mine, hello), claim.end() - proof_bytes);
  Digest answer{};
  if (!send_all(socket, claim, limit)) return Outcome::closed;
  const auto left = std::chrono::milliseconds(limit.deadline.poll_ms());
  if (!receive_all(socket, answer, {Deadline(left + answer_linger), limit.check})) return Outcome::closed;
  return equal(prove(secret, Role::acceptor, theirs, mine, hello), answer) ? Outcome::proved
                                                                           : Outcome::refused;
}

[[noreturn]] void throw_unauthorized(const Endpoint& endpoint) {
  throw Error(
      ErrorCode::unauthorized,
      "this rank and " + to_string(endpoint) +
          " do not know the same secret; give all ranks the same unique id, or the same TUTTI_SECRET, "
          "and if another job listens there, another TUTTI_PORT");
}

std::string why_closed(const Limit& limit) {
  return limit.deadline.passed()
             ? "somebody listens there, but does not speak (a stopped process, or one out of file "
               "descriptors: ulimit -n)"
             : "somebody listens there, but closes connections; another program may have the port";
}

bool is_unreachable(int code) { return code == EHOSTUNREACH || code == EHOSTDOWN; }

std::string why_not_connected(int code) {
  const std::string why = std::generic_category().message(code);
  return is_unreachable(code)
             ? why + "; is that host up, and does a firewall stand between? (tutti-doctor looks)"
             : why;
}

}  // namespace

Accepting::Accepting(FileDescriptor connection, const Secret& secret, std::chrono::milliseconds timeout)
    : connection_(std::move(connection)), secret_(secret), deadline_(timeout) {
  static_assert(sizeof buffer_ == challenge_bytes + claim_bytes);
  tune(fd());
  random_bytes(std::span(buffer_).first(challenge_bytes));
}

Accepting::State Accepting::advance() {
  bool gone = deadline_.passed();
  const auto sending = [&](std::size_t until) {  // the first 32 bytes are the challenge, the next the proof
    while (sent_ < until) {
      const auto sent = send_some(fd(), std::span(buffer_).subspan(sent_ % proof_bytes, until - sent_));
      gone = !sent;
      if (gone || *sent == 0) return false;
      sent_ += *sent;
    }
    return true;
  };
  if (gone) return State::gone;
  if (!sending(challenge_bytes)) return gone ? State::gone : State::pending;
  while (received_ < claim_bytes) {
    const auto received = receive_some(fd(), std::span(buffer_).subspan(challenge_bytes + received_));
    if (!received) return State::gone;
    if (*received == 0) return State::pending;
    received_ += *received;
    if (received_ < claim_bytes) continue;
    const auto bytes = std::span<const std::byte>(buffer_);
    const auto mine = bytes.first<challenge_bytes>(),
               theirs = bytes.subspan<challenge_bytes, challenge_bytes>();
    std::memcpy(&hello_, theirs.data() + challenge_bytes, sizeof hello_);
    const bool proved =
        equal(prove(secret_, Role::connector, mine, theirs, hello_), bytes.last<proof_bytes>());
    const Digest answer = proved ? prove(secret_, Role::acceptor, mine, theirs, hello_) : Digest{};
    std::ranges::copy(answer, buffer_.begin());
    if (proved) continue;
    sending(challenge_bytes + proof_bytes);
    return State::refused;
  }
  const bool done = sending(challenge_bytes + proof_bytes);
  if (gone) return State::gone;
  return done ? State::authenticated : State::pending;
}

FileDescriptor connect_authenticated(const std::string& address, std::uint16_t port, const Secret& secret,
                                     const Hello& hello, const Limit& limit, Listening listening,
                                     std::chrono::milliseconds patience) {
  const Endpoint endpoint{address, port};
  std::optional<Deadline> refusals_end;
  auto reachable = Clock::now();  // as far as is known
  std::string last;
  for (int pause_ms = 1;; pause_ms = std::min(2 * pause_ms, 50)) {
    const std::chrono::milliseconds left(limit.deadline.poll_ms());
    const Limit first_word(Deadline(std::min(patience, left)), limit.check);
    if (auto connected = try_connect(endpoint, first_word)) {
      PrivateDescriptor socket(std::move(*connected));
      reachable = Clock::now();
      tune(socket.get());
      switch (handshake(socket.get(), secret, hello, first_word, limit)) {
        case Outcome::proved:
          return socket.release();
        case Outcome::refused:
          // Perhaps by a hub of this job's run before, which is about to end: this one meets at the same
          // place.
          pause_ms = refused_pause_ms;
          if (!refusals_end) refusals_end.emplace(longest_refusal);
          if (listening == Listening::since_before || refusals_end->passed() ||
              limit.deadline.poll_ms() <= pause_ms)
            throw_unauthorized(endpoint);
          break;
        case Outcome::closed:
          last = why_closed(limit);
          break;
      }
    } else {
      const int code = errno;
      if (code == ECONNREFUSED && listening == Listening::since_before)
        throw Error(ErrorCode::peer_lost, "nobody listens at " + to_string(endpoint) +
                                              " any more, or a firewall refuses the connection (tutti-doctor "
                                              "looks for that)");
      last = why_not_connected(code);
      if (!is_unreachable(code)) reachable = Clock::now();
      if (listening == Listening::since_before && Clock::now() - reachable >= longest_unreachable)
        throw Error(ErrorCode::timeout, "could not connect to " + to_string(endpoint) + ": " + last);
    }
    const bool given_up = first_word.deadline.passed();
    if (limit.deadline.passed())
      throw Error(ErrorCode::timeout, "could not connect to " + to_string(endpoint) + " in time: " + last);
    if (given_up) patience = 2 * std::min(patience, left);
    if (limit.check) limit.check();
    // Nothing announces that somebody began to listen elsewhere: this wait can only be a pause between
    // attempts.
    ::poll(nullptr, 0, std::min(pause_ms, limit.deadline.poll_ms()));
  }
}

}  // namespace tutti::bootstrap
