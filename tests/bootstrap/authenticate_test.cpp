// The handshake byte by byte, and its two ends against each other.
#include "bootstrap/authenticate.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <string>

#include "bootstrap/hmac.hpp"
#include "bootstrap/own_network.hpp"
#include "bootstrap/ranks.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::bootstrap::test {
namespace {

struct Ends {
  FileDescriptor connector;
  Accepting accepting;
};

Ends make_ends(const Secret& secret, std::chrono::milliseconds timeout = 5s) {
  const auto listener = listen_at({"127.0.0.1", 0});
  auto connector = try_connect(local_endpoint(listener.get()), Deadline(5s));
  wait_for(listener.get(), POLLIN, Deadline(5s));
  return {std::move(connector.value()), Accepting(accept_from(listener.get()), secret, timeout)};
}

Accepting::State settle(Accepting& accepting) {
  auto state = accepting.advance();
  for (const Deadline deadline(5s); state == Accepting::State::pending && !deadline.passed();
       state = accepting.advance())
    wait_for(accepting.fd(), POLLIN, Deadline(100ms));
  return state;
}

Bytes receive(int socket, std::size_t count) {
  Bytes all;
  for (const Deadline deadline(5s); all.size() < count && wait_for(socket, POLLIN, deadline);) {
    Bytes piece(count - all.size());
    const auto got = receive_some(socket, piece);
    if (!got) break;
    all.insert(all.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(*got));
  }
  return all;
}

/// What an honest connector answers to a challenge.
Bytes claim(const Secret& secret, std::string_view label, std::span<const std::byte> challenge,
            const Hello& hello) {
  Bytes answer(32, std::byte{5});
  const auto raw = std::as_bytes(std::span(&hello, 1));
  const auto proof = hmac(secret, label, {challenge, answer, raw});
  answer.insert(answer.end(), raw.begin(), raw.end());
  answer.insert(answer.end(), proof.begin(), proof.end());
  return answer;
}

const Secret secret{std::byte{1}, std::byte{2}};

TEST(Authenticate, BothEndsAgreeAndTheHelloArrives) {
  const auto listener = listen_at({"127.0.0.1", 0});
  const auto endpoint = local_endpoint(listener.get());
  std::thread connector([&] {
    auto socket = connect_authenticated(endpoint.address, endpoint.port, secret, {3, 9, 77}, Deadline(5s));
    EXPECT_EQ(send_some(socket.get(), bytes("after")), 5U);
    EXPECT_EQ(receive(socket.get(), 4), bytes("back"));
  });
  wait_for(listener.get(), POLLIN, Deadline(5s));
  Accepting accepting(accept_from(listener.get()), secret, 5s);
  ASSERT_EQ(settle(accepting), Accepting::State::authenticated);
  EXPECT_EQ(accepting.hello().rank, 3);
  EXPECT_EQ(accepting.hello().size, 9U);
  EXPECT_EQ(accepting.hello().purpose, 77U);
  const auto socket = accepting.take();
  EXPECT_EQ(receive(socket.get(), 5), bytes("after"));
  EXPECT_EQ(send_some(socket.get(), bytes("back")), 4U);
  int on = 0;
  socklen_t size = sizeof on;
  EXPECT_EQ(::getsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
  EXPECT_NE(on, 0);
  EXPECT_NE(::fcntl(socket.get(), F_GETFD) & FD_CLOEXEC, 0);
  connector.join();
}

TEST(Authenticate, NothingBeyondTheHandshakeIsRead) {
  auto [connector, accepting] = make_ends(secret);
  EXPECT_EQ(accepting.advance(), Accepting::State::pending);
  auto message = claim(secret, "tutti connect", receive(connector.get(), 32), {});
  ASSERT_EQ(message.size(), 80U);
  message.resize(80 + 1000, std::byte{0x55});
  ASSERT_EQ(send_some(connector.get(), message), message.size());
  ASSERT_EQ(settle(accepting), Accepting::State::authenticated);
  EXPECT_EQ(receive(accepting.take().get(), 1000), Bytes(1000, std::byte{0x55}));
}

TEST(Authenticate, AnyChangedBitIsRefusedAndAnsweredWithZeros) {
  for (std::size_t at = 0; at < 80; ++at) {
    auto [connector, accepting] = make_ends(secret);
    accepting.advance();
    auto message = claim(secret, "tutti connect", receive(connector.get(), 32), {1, 2, 3});
    message[at] ^= std::byte{0x10};
    ASSERT_EQ(send_some(connector.get(), message), message.size());
    EXPECT_EQ(settle(accepting), Accepting::State::refused) << "byte " << at;
    EXPECT_EQ(receive(connector.get(), 32), Bytes(32));
  }
}

TEST(Authenticate, AProofForTheOtherRoleIsRefused) {
  auto [connector, accepting] = make_ends(secret);
  accepting.advance();
  ASSERT_EQ(send_some(connector.get(), claim(secret, "tutti accept", receive(connector.get(), 32), {})), 80U);
  EXPECT_EQ(settle(accepting), Accepting::State::refused);
}

TEST(Authenticate, ARecordedClaimIsRefusedByTheNextConnection) {
  auto [connector, accepting] = make_ends(secret);
  accepting.advance();
  const auto recorded = claim(secret, "tutti connect", receive(connector.get(), 32), {});
  auto [replayer, second] = make_ends(secret);
  second.advance();
  receive(replayer.get(), 32);
  ASSERT_EQ(send_some(replayer.get(), recorded), 80U);
  EXPECT_EQ(settle(second), Accepting::State::refused);
}

TEST(Authenticate, ChallengesDoNotRepeat) {
  std::set<Bytes> seen;
  for (int i = 0; i < 20; ++i) {
    auto [connector, accepting] = make_ends(secret);
    accepting.advance();
    seen.insert(receive(connector.get(), 32));
  }
  EXPECT_EQ(seen.size(), 20U);
}

TEST(Authenticate, ByteByByteWorksToo) {
  auto [connector, accepting] = make_ends(secret);
  accepting.advance();
  const auto message = claim(secret, "tutti connect", receive(connector.get(), 32), {1, 2, 3});
  for (const auto& byte : message) {
    EXPECT_EQ(accepting.advance(), Accepting::State::pending);
    ASSERT_EQ(send_some(connector.get(), std::span(&byte, 1)), 1U);
  }
  EXPECT_EQ(settle(accepting), Accepting::State::authenticated);
}

TEST(Authenticate, SilenceAndDepartureAreNoClaims) {
  auto [silent, patient] = make_ends(secret, 50ms);
  EXPECT_EQ(patient.advance(), Accepting::State::pending);
  EXPECT_EQ(settle(patient), Accepting::State::gone);
  auto [leaver, left] = make_ends(secret);
  leaver.reset();
  EXPECT_EQ(settle(left), Accepting::State::gone);
}

TEST(Authenticate, AnotherServiceAtThePortEndsInAnErrorInTime) {
  const auto listener = listen_at({"127.0.0.1", 0});  // accepts by the backlog, says nothing
  const auto start = Clock::now();
  const auto port = local_endpoint(listener.get()).port;
  const auto thrown =
      thrown_by([&] { connect_authenticated("127.0.0.1", port, secret, {}, Deadline(100ms)); });
  EXPECT_EQ(thrown.code, ErrorCode::timeout);
  EXPECT_THAT(thrown.text, testing::HasSubstr("ulimit -n"));  // or it may be out of them
  EXPECT_LT(Clock::now() - start, 1s);
}

TEST(Authenticate, AListenerThatComesLateIsFound) {
  std::uint16_t port = 0;
  { port = local_endpoint(listen_at({"127.0.0.1", 0}).get()).port; }
  std::thread connector([&] { connect_authenticated("127.0.0.1", port, secret, {}, Deadline(10s)); });
  EXPECT_EQ(::poll(nullptr, 0, 100), 0);
  const auto listener = listen_at({"127.0.0.1", port});
  ASSERT_TRUE(wait_for(listener.get(), POLLIN, Deadline(5s)));
  Accepting accepting(accept_from(listener.get()), secret, 5s);
  EXPECT_EQ(settle(accepting), Accepting::State::authenticated);
  connector.join();
}

// The other side counts the connection as made, and would tell all that this rank died.
TEST(Authenticate, ADeadlineDoesNotCutOffTheAnswerToAClaim) {
  const auto listener = listen_at({"127.0.0.1", 0});
  const auto port = local_endpoint(listener.get()).port;
  const Deadline deadline(500ms);
  const std::jthread connector([&] {
    const auto thrown = thrown_by([&] { connect_authenticated("127.0.0.1", port, secret, {}, deadline); });
    EXPECT_FALSE(thrown.code) << thrown.text;
  });
  Ends other = make_ends(secret);  // hears and says what this connection brings and takes, when it may
  EXPECT_TRUE(wait_for(listener.get(), POLLIN, deadline));
  const auto connection = accept_from(listener.get());
  const auto pass = [](const FileDescriptor& from, const FileDescriptor& to, std::size_t bytes) {
    const auto all = receive(from.get(), bytes);
    EXPECT_EQ(all.size(), bytes);
    EXPECT_EQ(send_some(to.get(), all), all.size());
  };
  EXPECT_EQ(other.accepting.advance(), Accepting::State::pending);
  pass(other.connector, connection, 32);
  EXPECT_TRUE(wait_for(connection.get(), POLLIN, deadline)) << "no claim";
  ::poll(nullptr, 0, deadline.poll_ms());
  pass(connection, other.connector, 32 + sizeof(Hello) + 32);
  EXPECT_EQ(settle(other.accepting), Accepting::State::authenticated);
  pass(other.connector, connection, 32);
}

/// Answers one connection after the other, with a secret each.
void answer(int listener, const std::vector<Secret>& secrets) {
  for (const auto& one : secrets) {
    ASSERT_TRUE(wait_for(listener, POLLIN, Deadline(5s)));
    Accepting accepting(accept_from(listener), one, 5s);
    settle(accepting);
  }
}

TEST(Authenticate, ARefusedRankTriesAgain) {
  const auto listener = listen_at({"127.0.0.1", 0});
  const auto port = local_endpoint(listener.get()).port;
  std::thread acceptor([&] { answer(listener.get(), {Secret{}, secret}); });
  EXPECT_TRUE(connect_authenticated("127.0.0.1", port, secret, {}, Deadline(5s)));
  acceptor.join();
}

TEST(Authenticate, WhoIsRefusedByOneThatListenedBeforeDoesNot) {
  const auto listener = listen_at({"127.0.0.1", 0});
  const auto port = local_endpoint(listener.get()).port;
  std::thread acceptor([&] { answer(listener.get(), {Secret{}}); });
  const auto thrown = thrown_by(
      [&] { connect_authenticated("127.0.0.1", port, secret, {}, Deadline(5s), Listening::since_before); });
  EXPECT_EQ(thrown.code, ErrorCode::unauthorized);
  acceptor.join();
}

// Its copy of a connection would hide that the rank has died.
TEST(Authenticate, AChildForkedInTheMiddleHoldsNothingOpen) {
  const auto listener = listen_at({"127.0.0.1", 0});
  const auto port = local_endpoint(listener.get()).port;
  std::atomic<bool> forked = false;
  std::thread connector([&] {
    const auto check = [&] {
      if (forked) throw Error(ErrorCode::aborted, "enough");
    };
    const auto thrown = thrown_by([&] {
      connect_authenticated("127.0.0.1", port, secret, {}, {Deadline(10s), check});
    });
    EXPECT_EQ(thrown.code, ErrorCode::aborted);
  });
  EXPECT_TRUE(wait_for(listener.get(), POLLIN, Deadline(5s)));
  const auto socket = accept_from(listener.get());
  EXPECT_EQ(send_some(socket.get(), Bytes(32)), 32U);  // a challenge
  EXPECT_EQ(receive(socket.get(), 80).size(), 80U);
  const Child child([] { return ::pause(); });
  forked = true;
  connector.join();
  EXPECT_TRUE(wait_for(socket.get(), POLLIN, Deadline(5s)));
  EXPECT_EQ(receive(socket.get(), 1), Bytes());
}

TEST(Authenticate, WhoListenedBeforeIsNotAwaited) {
  std::uint16_t port = 0;
  { port = local_endpoint(listen_at({"127.0.0.1", 0}).get()).port; }
  const auto start = Clock::now();
  const auto thrown = thrown_by(
      [&] { connect_authenticated("127.0.0.1", port, secret, {}, Deadline(10s), Listening::since_before); });
  EXPECT_EQ(thrown.code, ErrorCode::peer_lost);
  EXPECT_THAT(thrown.text, testing::HasSubstr("nobody listens at 127.0.0.1:"));
  EXPECT_THAT(thrown.text, testing::HasSubstr("firewall"));
  EXPECT_LT(Clock::now() - start, 5s);
}

TEST(Authenticate, NamesAreNoAddresses) {
  const auto thrown = thrown_by([] { connect_authenticated("localhost", 1, secret, {}, Deadline(100ms)); });
  EXPECT_EQ(thrown.code, ErrorCode::invalid_argument);
  EXPECT_THAT(thrown.text, testing::HasSubstr("\"localhost\" is not a numeric address"));
}

TEST(Hmac, MatchesRfc4231) {
  const auto to_hex = [](const Digest& digest) {
    std::string text;
    for (const auto byte : digest)
      for (const int shift : {4, 0})
        text += "0123456789abcdef"[(std::to_integer<unsigned>(byte) >> shift) & 15U];
    return text;
  };
  EXPECT_EQ(to_hex(hmac(bytes("Jefe"), "what do ya ", {bytes("want for "), bytes("nothing?")})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Hmac, DerivedSecretsDiffer) {
  const auto base = derive(bytes("password"), "a", 0);
  EXPECT_EQ(base, derive(bytes("password"), "a", 0));
  EXPECT_NE(base, derive(bytes("password"), "a", 1));
  EXPECT_NE(base, derive(bytes("password"), "b", 0));
  EXPECT_NE(base, derive(bytes("passwore"), "a", 0));
}

// As a switch or a firewall says it, for a while or for good.
TEST(Authenticate, AHostThatCannotBeReachedIsTriedForAWhile) {
  Child child([] {
    if (!enter_own_network() || !run_ip("route add unreachable 10.9.8.7")) return 77;
    const Deadline soon(2s);
    const auto thrown = thrown_by(
        [] { connect_authenticated("10.9.8.7", 4, {}, {}, Limit(Deadline(60s)), Listening::since_before); });
    EXPECT_EQ(thrown.code, ErrorCode::timeout);
    EXPECT_THAT(thrown.text, testing::HasSubstr("is that host up, and does a firewall stand between?"));
    EXPECT_TRUE(soon.passed()) << "it may come back";
    return testing::Test::HasFailure() ? 1 : 0;
  });
  const int code = child.wait();
  if (code == 77) GTEST_SKIP() << "cannot make a network namespace";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace tutti::bootstrap::test
