// Groups that form, those that do not, and what ranks are told then.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <latch>
#include <span>
#include <vector>

#include "bootstrap/authenticate.hpp"
#include "bootstrap/frame.hpp"
#include "bootstrap/hub.hpp"
#include "bootstrap/ranks.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::bootstrap::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Session, MissingRanksAreNamedToAllWhoCame) {
  const auto id = UniqueId::create();
  on_threads(5, [&](Rank rank) {
    if (rank == 1 || rank == 3) return;
    const auto start = Clock::now();
    const auto thrown = thrown_by([&] { Session::join(id, rank, 5, 300ms); });
    EXPECT_EQ(thrown.code, ErrorCode::timeout);
    EXPECT_THAT(thrown.ranks, ElementsAre(1, 3)) << thrown.text;
    EXPECT_THAT(thrown.text, HasSubstr("ranks 1, 3 did not join"));
    EXPECT_LT(Clock::now() - start, 1500ms);
  });
}

TEST(Session, MissingRankZeroIsNamed) {
  const auto id = reserve_id("");
  const auto thrown = thrown_by([&] { Session::join(id, 1, 2, 100ms); });
  EXPECT_EQ(thrown.code, ErrorCode::timeout);
  EXPECT_THAT(thrown.ranks, ElementsAre(0));
}

// An id is of the loopback unless an interface is named, and may be handed to other hosts by mistake.
TEST(Session, ALoopbackAddressOfAnotherHostIsToldSoon) {
  auto rendezvous = read(reserve_id("lo"));
  ASSERT_NE(rendezvous.loopback, 0U);
  rendezvous.loopback ^= 1U;
  const Deadline soon(20s);
  const auto thrown = thrown_by([&] { Session::join(make_id(rendezvous), 1, 2, 60s); });
  EXPECT_FALSE(soon.passed());
  EXPECT_EQ(thrown.code, ErrorCode::invalid_argument);
  EXPECT_THAT(thrown.ranks, ElementsAre(0));
  EXPECT_THAT(thrown.text, HasSubstr("the unique id is of 127.0.0.1 on another host"));
  EXPECT_THAT(thrown.text, HasSubstr("UniqueId::create(\"default\"), or TUTTI_INTERFACE"));
}

// As those of one container, with an id that was made outside.
TEST(Session, RanksThatShareALoopbackThatIsNotTheIdsMeet) {
  auto rendezvous = read(reserve_id("lo"));
  rendezvous.loopback ^= 1U;
  const auto id = make_id(rendezvous);
  on_threads(2, [&](Rank rank) {
    if (rank == 0) std::this_thread::sleep_for(100ms);
    Session::join(id, rank, 2, 20s)->leave(5s);
  });
}

// Also where each process makes an id, and none hands it on.
TEST(Session, ListeningRankZeroThatNeverJoinsIsNamed) {
  const auto id = UniqueId::create();
  const auto thrown = thrown_by([&] { Session::join(id, 1, 2, 100ms); });
  EXPECT_EQ(thrown.code, ErrorCode::timeout);
  EXPECT_THAT(thrown.ranks, ElementsAre(0));
  EXPECT_THAT(thrown.text, HasSubstr("this process made the unique id, and rank 0 did not join with it"));
}

TEST(Session, RankTakenTwiceFailsEverybody) {
  const auto id = UniqueId::create();
  std::atomic<int> refused = 0;
  on_threads(4, [&](Rank thread) {
    const auto thrown = thrown_by([&] { Session::join(id, std::min(thread, 2), 4, 5s); });
    EXPECT_THAT(thrown.text, HasSubstr("rank 2 (from 127.0.0.1:"));
    EXPECT_THAT(thrown.text, HasSubstr("is taken by another process (from 127.0.0.1:"));
    EXPECT_THAT(thrown.ranks, ElementsAre(2));
    refused += thrown.code == ErrorCode::invalid_argument ? 1 : 0;
  });
  EXPECT_EQ(refused, 4);
}

TEST(Session, DifferentSizesFailEverybody) {
  const auto id = UniqueId::create();
  on_threads(3, [&](Rank rank) {
    const auto thrown = thrown_by([&] { Session::join(id, rank, rank == 2 ? 5 : 3, 5s); });
    EXPECT_EQ(thrown.code, ErrorCode::invalid_argument);
    EXPECT_THAT(thrown.text, HasSubstr("says that there are 5 ranks, but rank 0 says 3"));
    EXPECT_THAT(thrown.ranks, ElementsAre(2));
  });
}

TEST(Session, RankThatGaveUpMayComeAgain) {
  const auto id = UniqueId::create();
  std::thread zero([&] { Session::join(id, 0, 3, 10s)->leave(5s); });
  EXPECT_EQ(thrown_by([&] { Session::join(id, 1, 3, 100ms); }).code, ErrorCode::timeout);
  std::thread two([&] { Session::join(id, 2, 3, 10s)->leave(5s); });
  Session::join(id, 1, 3, 10s)->leave(5s);
  two.join();
  zero.join();
}

/// Ranks 0 and 1 wait in vain for rank 2; then all three meet with the same id.
void expect_to_meet_in_the_next(const UniqueId& id) {
  std::latch failed(2);
  on_threads(3, [&](Rank rank) {
    if (rank == 2) {
      failed.wait();
    } else {
      const auto thrown = thrown_by([&] { Session::join(id, rank, 3, rank == 0 ? 1s : 20s); });
      EXPECT_EQ(thrown.code, ErrorCode::timeout);
      EXPECT_THAT(thrown.ranks, ElementsAre(2));
      failed.count_down();
    }
    Session::join(id, rank, 3, 20s)->leave(5s);
  });
}

// Under launchers that name a host all groups meet at one place. The hub of one that did not form goes on for
// a moment, and has told this rank.
TEST(Session, WhoseGroupDidNotFormMeetInTheNext) { expect_to_meet_in_the_next(reserve_id("")); }

// The port is one that the system chose, and has the connections of those who were turned away.
TEST(Session, WhoseGroupDidNotFormMeetInTheNextWithAnIdOfThisProcess) {
  expect_to_meet_in_the_next(UniqueId::create("lo"));
}

// It comes back to the group that it gave up, and goes on to the next when that one ends.
TEST(Session, WhoGaveUpAndCameAgainMeetsTheOthersInTheNext) {
  const auto id = reserve_id("");
  std::latch failed(1);
  on_threads(3, [&](Rank rank) {
    if (rank == 0) {
      EXPECT_EQ(thrown_by([&] { Session::join(id, 0, 3, 2s); }).code, ErrorCode::timeout);
      failed.count_down();
    } else if (rank == 1) {
      Thrown thrown;  // {0}: rank 0 did not listen yet
      for (const Deadline deadline(10s); thrown.ranks != std::vector<Rank>{2} && !deadline.passed();)
        thrown = thrown_by([&] { Session::join(id, 1, 3, 100ms); });
    } else {
      failed.wait();
    }
    Session::join(id, rank, 3, 20s)->leave(5s);
  });
}

TEST(Session, WhoCameAgainWithAnotherSizeIsToldSo) {
  const auto id = reserve_id("");
  on_threads(2, [&](Rank rank) {
    Thrown thrown;
    for (const Deadline deadline(10s); rank == 1 && thrown.ranks != std::vector<Rank>{2};) {
      ASSERT_FALSE(deadline.passed());
      thrown = thrown_by([&] { Session::join(id, 1, 3, 100ms); });
    }
    const Deadline soon(15s);
    thrown = thrown_by([&] { Session::join(id, rank, rank == 1 ? 4 : 3, 30s); });
    EXPECT_FALSE(soon.passed());
    EXPECT_EQ(thrown.code, ErrorCode::invalid_argument);
    EXPECT_THAT(thrown.text, HasSubstr("says that there are 4 ranks, but rank 0 says 3"));
  });
}

/// Of the next frame from the hub; of no kind: none came.
FrameHeader next_header(const FileDescriptor& socket) {
  std::array<std::byte, sizeof(FrameHeader)> raw{};
  const Deadline deadline(10s);
  for (std::span<std::byte> rest = raw; !rest.empty();) {
    const auto received = receive_some(socket.get(), rest);
    if (!received || (*received == 0 && !wait_for(socket.get(), POLLIN, deadline)))
      return {FrameKind{99}, 0, 0};
    rest = rest.subspan(*received);
  }
  return std::bit_cast<FrameHeader>(raw);
}

TEST(Session, WhoCameAgainIsToldOfADeath) {
  const auto id = reserve_id("");
  const auto at = read(id);
  const auto enter_as = [&](Rank rank) {
    return connect_authenticated(at.endpoint.address, at.endpoint.port, at.secret, {rank, 4, 0},
                                 Deadline(10s));
  };
  std::thread zero([&] {
    const auto thrown = thrown_by([&] { Session::join(id, 0, 4, 60s); });
    EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
    EXPECT_THAT(thrown.ranks, ElementsAre(2));
  });
  Thrown thrown;
  for (const Deadline deadline(10s); thrown.ranks != std::vector<Rank>{2, 3} && !deadline.passed();)
    thrown = thrown_by([&] { Session::join(id, 1, 4, 100ms); });
  EXPECT_THAT(thrown.ranks, ElementsAre(2, 3));
  const auto again = enter_as(1);
  enter_as(2).reset();
  EXPECT_EQ(next_header(again).kind, FrameKind::rejected);
  zero.join();
}

// Nobody can come any more who would have to hear that. Beside one that counts more ranks others may.
TEST(Hub, EndsOnceAllHaveHeardWhyTheGroupCannotForm) {
  auto listener = listen_at({"127.0.0.1", 0});
  const auto at = local_endpoint(listener.get());
  const Secret secret{std::byte{1}};
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()), 0);
  const FileDescriptor zero(pair[1]);
  Hub hub(std::move(listener), secret, 4, 60s, FileDescriptor(pair[0]));
  const auto enter_as = [&](const Hello& hello) {
    return connect_authenticated(at.address, at.port, secret, hello, Deadline(20s));
  };
  const auto first = enter_as({1, 4, 0}), dies = enter_as({2, 4, 0}), of_another_size = enter_as({3, 5, 0});
  for (const auto* const one : {&zero, &first, &dies, &of_another_size})
    EXPECT_EQ(next_header(*one).kind, FrameKind::rejected);
  EXPECT_FALSE(hub.end_with_last(0ms));
  EXPECT_EQ(::shutdown(dies.get(), SHUT_RDWR), 0);
  EXPECT_TRUE(send_some(first.get(), *make_frame(FrameKind::goodbye)));
  EXPECT_EQ(next_header(enter_as({3, 4, 0})).kind, FrameKind::rejected);
  EXPECT_TRUE(hub.end_with_last(60s));
}

TEST(Session, WhoCameAgainHearsWhyNobodyIsThereAnyMore) {
  const auto id = reserve_id("");
  on_threads(2, [&](Rank rank) {
    if (rank == 0) {
      EXPECT_EQ(thrown_by([&] { Session::join(id, 0, 3, 2s); }).code, ErrorCode::timeout);
      return;
    }
    Thrown thrown;
    for (const Deadline deadline(10s); thrown.ranks != std::vector<Rank>{2} && !deadline.passed();)
      thrown = thrown_by([&] { Session::join(id, 1, 3, 100ms); });
    thrown = thrown_by([&] { Session::join(id, 1, 3, 4s); });
    EXPECT_EQ(thrown.code, ErrorCode::timeout);
    EXPECT_THAT(thrown.ranks, ElementsAre(0));
    EXPECT_THAT(thrown.text, HasSubstr("joining a group of 3 once more (rank 2 did not join in time): "));
  });
}

// As that of a job that is started anew at the same place. Rank 1 waits at the listener from the beginning.
TEST(Session, WhoComesBeforeAHubWithAnotherSecretHasEndedIsLetIn) {
  const auto id = UniqueId::create("lo");
  auto rendezvous = read(id);
  rendezvous.secret[0] ^= std::byte{1};
  const auto next = make_id(rendezvous);
  on_threads(2, [&](Rank rank) {
    if (rank == 0) {
      EXPECT_EQ(thrown_by([&] { Session::join(id, 0, 2, 100ms); }).code, ErrorCode::timeout);
    }
    Session::join(next, rank, 2, 5s)->leave(5s);
  });
}

TEST(Session, GroupsOfOneIdHaveSecretsOfTheirOwn) {
  const auto id = reserve_id("");
  std::vector<Secret> secrets(4, read(id).secret);
  for (const std::size_t group : {0U, 2U})
    on_threads(2, [&](Rank rank) {
      const auto session = Session::join(id, rank, 2, 10s);
      secrets[group + static_cast<std::size_t>(rank)] = session->secret();
      session->leave(5s);
    });
  EXPECT_EQ(secrets[0], secrets[1]);
  EXPECT_EQ(secrets[2], secrets[3]);
  EXPECT_NE(secrets[0], secrets[2]);
  EXPECT_NE(secrets[0], read(id).secret);
}

TEST(Session, NonsenseRanksAreRefused) {
  for (const auto& place : {std::pair(0, 0), {-1, 2}, {2, 2}, {0, -1}})
    EXPECT_EQ(thrown_by([&] { Session::join(UniqueId::create(), place.first, place.second, 1s); }).code,
              ErrorCode::invalid_argument);
  EXPECT_EQ(thrown_by([&] { Session::join(UniqueId{}, 0, 2, 1s); }).code, ErrorCode::invalid_argument);
  EXPECT_EQ(thrown_by([&] { Session::join(UniqueId::create("lo"), 0, 1 << 30, 1s); }).code,
            ErrorCode::invalid_argument);
}

TEST(Session, WhoComesOnceTheGroupHasFormedFindsNobody) {
  const auto id = UniqueId::create();
  std::vector<SessionPointer> sessions(2);
  on_threads(2,
             [&](Rank rank) { sessions[static_cast<std::size_t>(rank)] = Session::join(id, rank, 2, 5s); });
  EXPECT_EQ(thrown_by([&] { Session::join(id, 1, 2, 50ms); }).code, ErrorCode::timeout);
  leave_all(sessions);
}

}  // namespace
}  // namespace tutti::bootstrap::test
