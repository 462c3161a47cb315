// Whoever does not know the secret disturbs nothing; whoever connects with a wrong one is told so.
#include <poll.h>

#include <atomic>
#include <random>

#include "bootstrap/authenticate.hpp"
#include "bootstrap/frame.hpp"
#include "bootstrap/ranks.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::bootstrap::test {
namespace {

FileDescriptor stranger(const Endpoint& endpoint) {
  auto socket = try_connect(endpoint, Deadline(5s));
  return socket ? std::move(*socket) : FileDescriptor();
}

/// Keeps `molest` busy on rank 0's port while a group of 4 forms and works.
void form_group_among(const std::function<void(const Endpoint&)>& molest) {
  const auto id = UniqueId::create();
  const auto endpoint = read(id).endpoint;
  std::atomic<bool> formed = false;
  std::thread zero([&] {
    const auto session = Session::join(id, 0, 4, 20s);
    EXPECT_EQ(session->all_gather(bytes("0"), 5s).size(), 4U);
    session->leave(5s);
  });
  for (int i = 0; i < 5; ++i) molest(endpoint);
  std::thread nuisance([&] {
    while (!formed) molest(endpoint);
  });
  on_threads(3, [&](Rank i) {
    const auto session = Session::join(id, i + 1, 4, 20s);
    formed = true;
    EXPECT_EQ(session->all_gather(bytes("x"), 5s).size(), 4U);
    session->leave(5s);
  });
  nuisance.join();
  zero.join();
}

TEST(Strangers, PortScan) { form_group_among(&stranger); }

TEST(Strangers, SilentConnections) {
  std::vector<FileDescriptor> kept;
  form_group_among([&](const Endpoint& endpoint) {
    if (kept.size() < 300)
      kept.push_back(stranger(endpoint));
    else
      std::this_thread::yield();
  });
}

TEST(Strangers, RandomBytes) {
  std::mt19937 random(1);
  form_group_among([&](const Endpoint& endpoint) {
    const auto socket = stranger(endpoint);
    Bytes garbage(random() % 5000);
    for (auto& byte : garbage) byte = static_cast<std::byte>(random());
    if (socket) static_cast<void>(send_some(socket.get(), garbage));
  });
}

TEST(Strangers, ValidPrefixes) {
  std::vector<FileDescriptor> kept;
  form_group_among([&](const Endpoint& endpoint) {
    auto socket = stranger(endpoint);
    if (!socket || kept.size() > 100) return;
    Bytes prefix(32, std::byte{1});  // a challenge, as any connecting rank sends first
    const Hello hello{1, 4, 0};
    const auto raw = std::as_bytes(std::span(&hello, 1));
    prefix.insert(prefix.end(), raw.begin(), raw.end());
    prefix.resize(32 + 16 + kept.size() % 32);  // then a part of the proof
    static_cast<void>(send_some(socket.get(), prefix));
    kept.push_back(std::move(socket));
  });
}

TEST(Strangers, AWholeProofOfAnotherSecret) {
  Secret wrong{};
  form_group_among([&](const Endpoint& endpoint) {
    const auto thrown = thrown_by([&] {
      connect_authenticated(endpoint.address, endpoint.port, wrong, {1, 4, 0}, Deadline(200ms));
    });
    EXPECT_TRUE(thrown.code == ErrorCode::unauthorized || thrown.code == ErrorCode::timeout) << thrown.text;
  });
}

TEST(Strangers, TwoHundredConnectionsBeforeTheRanks) {
  const auto id = UniqueId::create();
  std::vector<FileDescriptor> crowd;
  for (int i = 0; i < 200; ++i) {
    crowd.push_back(stranger(read(id).endpoint));
    ASSERT_TRUE(crowd.back());
  }
  const auto start = Clock::now();
  on_threads(8, [&](Rank rank) { Session::join(id, rank, 8, 20s)->leave(5s); });
  EXPECT_LT(Clock::now() - start, 5s);
  Deadline deadline(5s);
  for (const auto& one : crowd) {  // all were dropped: each gets a challenge at most, and the end
    std::array<std::byte, 64> into{};
    std::size_t got = 0;
    for (;;) {
      const auto more = receive_some(one.get(), into);
      if (!more) break;
      got += *more;
      ASSERT_TRUE(*more > 0 || wait_for(one.get(), POLLIN, deadline));
    }
    EXPECT_LE(got, 32U);
  }
}

TEST(Strangers, AreSentAwayOnceTheGroupIsComplete) {
  const auto id = UniqueId::create();
  std::vector<SessionPointer> sessions(2);
  FileDescriptor silent;
  on_threads(2, [&](Rank rank) {
    if (rank == 1) {
      silent = stranger(read(id).endpoint);
      std::byte challenge{};
      while (!receive_some(silent.get(), std::span(&challenge, 1)).value_or(0))  // it has been let in
        ASSERT_TRUE(wait_for(silent.get(), POLLIN, Deadline(5s)));
    }
    sessions[static_cast<std::size_t>(rank)] = Session::join(id, rank, 2, 5s);
  });
  std::array<std::byte, 64> rest{};
  for (const Deadline deadline(5s); receive_some(silent.get(), rest).has_value();)
    ASSERT_TRUE(wait_for(silent.get(), POLLIN, deadline)) << "it is still connected";
  leave_all(sessions);
}

TEST(Strangers, NobodyListensOnceTheGroupIsComplete) {
  const auto id = UniqueId::create();
  std::vector<SessionPointer> sessions(2);
  on_threads(2,
             [&](Rank rank) { sessions[static_cast<std::size_t>(rank)] = Session::join(id, rank, 2, 5s); });
  EXPECT_FALSE(stranger(read(id).endpoint));
  leave_all(sessions);
}

TEST(Strangers, AWrongSecretIsRefusedAndTheOthersLearnOfIt) {
  const auto id = UniqueId::create();
  auto rendezvous = read(id);
  rendezvous.secret[3] ^= std::byte{1};
  const auto wrong = make_id(rendezvous);
  on_threads(3, [&](Rank rank) {
    const auto thrown = thrown_by([&] { Session::join(rank == 1 ? wrong : id, rank, 3, 400ms); });
    EXPECT_EQ(thrown.code, rank == 1 ? ErrorCode::unauthorized : ErrorCode::timeout);
    const std::string expected = rank == 1
                                     ? "rank 1 joining a group of 3: this rank and 127.0.0.1:"
                                     : " connections did not know the secret";  // it tries more than once
    EXPECT_NE(thrown.text.find(expected), std::string::npos) << thrown.text;
  });
}

TEST(Strangers, WhoClaimsNothingIsNotToldOf) {
  const auto id = UniqueId::create();
  stranger(read(id).endpoint);
  const auto thrown = thrown_by([&] { Session::join(id, 0, 2, 100ms); });
  EXPECT_EQ(thrown.code, ErrorCode::timeout);
  EXPECT_EQ(thrown.text.find("secret"), std::string::npos) << thrown.text;
}

TEST(Strangers, AFalseHubIsNotBelieved) {
  auto listener = listen_at({"127.0.0.1", 0});
  const auto endpoint = local_endpoint(listener.get());
  std::atomic<bool> over = false;
  std::thread impostor([&] {
    while (!over) {
      if (!wait_for(listener.get(), POLLIN, Deadline(10ms))) continue;
      Accepting accepting(accept_from(listener.get()), Secret{std::byte{7}}, 5s);
      while (accepting.advance() == Accepting::State::pending) wait_for(accepting.fd(), POLLIN, Deadline(5s));
    }
  });
  const auto id = make_id({endpoint, Secret{std::byte{8}}});
  const auto thrown = thrown_by([&] { Session::join(id, 1, 2, 10s); });
  EXPECT_EQ(thrown.code, ErrorCode::unauthorized);
  EXPECT_NE(thrown.text.find("if another job listens there, another TUTTI_PORT"), std::string::npos)
      << thrown.text;
  over = true;
  impostor.join();
}

TEST(Strangers, AMemberThatExceedsAFrameLimitOrSpeaksNonsenseIsLost) {
  for (const FrameHeader header :
       {FrameHeader{FrameKind::notice, 0, largest_small_payload + 1},
        FrameHeader{FrameKind::contribute, 0, largest_contribute_payload + 1},
        FrameHeader{FrameKind::contribute, 0, std::uint64_t{1} << 60},
        FrameHeader{FrameKind::contribute, 0, 3}, FrameHeader{FrameKind::stuck, 0, 0},
        FrameHeader{FrameKind::welcome, 0, 0}, FrameHeader{FrameKind{99}, 0, 0}}) {
    const auto id = UniqueId::create();
    std::thread traitor([&] {
      const auto [endpoint, secret, loopback] = read(id);
      const auto socket =
          connect_authenticated(endpoint.address, endpoint.port, secret, {1, 2, 0}, Deadline(5s));
      Bytes frame(sizeof header + 3);
      std::memcpy(frame.data(), &header, sizeof header);
      static_cast<void>(send_some(socket.get(), frame));
      std::array<std::byte, 64> into{};
      for (const Deadline deadline(5s); receive_some(socket.get(), into) && !deadline.passed();)
        wait_for(socket.get(), POLLIN, deadline);
    });
    const auto session = Session::join(id, 0, 2, 5s);
    const auto notice = next_notice(*session);
    EXPECT_TRUE(notice && notice->kind == Notice::Kind::lost && notice->rank == 1);
    traitor.join();
    session->leave(1s);
  }
}

}  // namespace
}  // namespace tutti::bootstrap::test
