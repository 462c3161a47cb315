// Ranks as processes, to kill and to fork.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/fork_guard.hpp"
#include "bootstrap/authenticate.hpp"
#include "bootstrap/environment.hpp"
#include "bootstrap/launched.hpp"
#include "bootstrap/pmi1_server.hpp"
#include "bootstrap/ranks.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::bootstrap::test {
namespace {

/// One process a rank; each joins and then runs `body`.
std::vector<Child> fork_group(int size, const std::function<int(Session&)>& body) {
  const auto id = reserve_id("");
  std::vector<Child> children;
  children.reserve(static_cast<std::size_t>(size));
  for (Rank rank = 0; rank < size; ++rank)
    children.emplace_back([&, rank] {
      const auto session = Session::join(id, rank, size, 10s);
      return body(*session);
    });
  return children;
}

class Processes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sessions, Processes, testing::Values(1, 2, 3, 8, 33),
                         testing::PrintToStringParamName());

TEST_P(Processes, ExchangeAndLeave) {
  auto children = fork_group(GetParam(), [](Session& session) {
    const auto all = session.all_gather(bytes(std::to_string(session.rank())), 20s);
    int good = 0;
    for (const auto& one : all) good += one == bytes(std::to_string(&one - all.data())) ? 1 : 0;
    session.leave(10s);
    return good;
  });
  for (auto& child : children) EXPECT_EQ(child.wait(), GetParam());
}

TEST_P(Processes, AllLearnOfAKilledRankWithinASecond) {
  const int size = GetParam();
  if (size == 1) return;
  for (const Rank victim : {0, size - 1, size / 2}) {
    auto children = fork_group(size, [victim](Session& session) {
      if (session.rank() == victim) {
        session.all_gather({}, 20s);
        return ::raise(SIGKILL);
      }
      // When rank 0 dies, it takes along what its hub had not sent yet.
      const auto exchange = thrown_by([&] { session.all_gather({}, 20s); });
      if (exchange.code && exchange.ranks != std::vector{victim}) return 4;
      const auto notice = next_notice(session, 1s);
      if (!notice) return 1;
      if (notice->kind != Notice::Kind::lost || notice->rank != victim) return 2;
      const auto thrown = thrown_by([&] { session.all_gather({}, 5s); });
      // Others may have ended by now, too.
      return thrown.code == ErrorCode::peer_lost && thrown.ranks.front() == victim ? 0 : 3;
    });
    for (Rank rank = 0; rank < size; ++rank)
      EXPECT_EQ(children[static_cast<std::size_t>(rank)].wait(), rank == victim ? -SIGKILL : 0)
          << "rank " << rank;
  }
}

TEST(Process, ADeathBeforeAllHaveJoinedEndsTheOthersWaitWithinASecond) {
  const auto id = reserve_id("");
  std::vector<Child> others;
  for (const Rank rank : {0, 1})
    others.emplace_back([&, rank] {
      const auto thrown = thrown_by([&] { Session::join(id, rank, 4, 20s); });
      const bool says = thrown.text.find("rank 2 (from 127.0.0.1:") != std::string::npos &&
                        thrown.text.find("died before all had joined") != std::string::npos;
      return says && thrown.code == ErrorCode::peer_lost && thrown.ranks == std::vector<Rank>{2} ? 0 : 1;
    });
  Child victim([&] {
    const auto [endpoint, secret, loopback] = read(id);
    const auto joined =
        connect_authenticated(endpoint.address, endpoint.port, secret, {2, 4, 0}, Deadline(10s));
    return ::raise(SIGKILL);
  });
  EXPECT_EQ(victim.wait(), -SIGKILL);
  const auto start = Clock::now();
  for (auto& other : others) EXPECT_EQ(other.wait(), 0);
  EXPECT_LT(Clock::now() - start, 1s);
}

TEST(Process, TheKilledRanksLifelineIsNotHeldOpenByItsChildren) {
  std::array<int, 2> gate{};
  ASSERT_EQ(::pipe(gate.data()), 0);
  auto children = fork_group(3, [&](Session& session) {
    session.all_gather({}, 10s);
    if (session.rank() == 0) {
      const auto notice = next_notice(session, 2s);
      const bool lost = notice && notice->kind == Notice::Kind::lost && notice->rank == 2;
      static_cast<void>(!::write(gate[1], "x", 1));
      session.leave(5s);
      return lost ? 0 : 1;
    }
    if (session.rank() == 1) {
      const auto first = next_notice(session, 5s), second = next_notice(session, 5s);
      session.leave(1s);
      return first && first->rank == 2 && second && second->rank == 0 ? 0 : 2;
    }
    if (::fork() == 0) {  // outlives its parent, with copies of all that the parent had open
      char byte = 0;
      static_cast<void>(!::read(gate[0], &byte, 1));
      ::_exit(0);
    }
    return ::raise(SIGKILL);
  });
  EXPECT_EQ(children[0].wait(), 0);
  EXPECT_EQ(children[1].wait(), 0);
  EXPECT_EQ(children[2].wait(), -SIGKILL);
  ::close(gate[0]);
  ::close(gate[1]);
}

TEST(Process, AForkedCopyOfASessionIsMuteAndItsEndHarmless) {
  auto sessions = form_group(2);
  for (std::size_t rank : {0U, 1U}) {
    Child child([&] {
      auto& copy = *sessions[rank];
      if (thrown_by([&] { copy.all_gather({}, 1s); }).code != ErrorCode::forked) return 1;
      copy.announce_failure(1, Error(ErrorCode::aborted, "from the child"));
      copy.report_stuck(1, 0, {});
      if (copy.poll()) return 2;
      copy.leave(1s);
      sessions.clear();  // destructors: the hub's thread is not in this process
      std::exit(0);      // looks for leaks, in the build that does
      return 1;
    });
    EXPECT_EQ(child.wait(), 0);
  }
  on_threads(2, [&](Rank rank) {
    auto& session = *sessions[static_cast<std::size_t>(rank)];
    EXPECT_EQ(session.all_gather(bytes("alive"), 5s), std::vector<Bytes>(2, bytes("alive")));
    EXPECT_FALSE(session.poll());
  });
  leave_all(sessions);
}

TEST(Process, AChildFormsAGroupOfItsOwn) {
  auto sessions = form_group(2);
  Child child([] {
    const auto session = Session::join(UniqueId::create(), 0, 1, 1s);
    return session->all_gather(bytes("x"), 1s) == std::vector<Bytes>{bytes("x")} ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
  leave_all(sessions);
}

TEST(Process, RankZeroInAChildOfTheIdsMakerIsRefusedWithTheReason) {
  const auto id = UniqueId::create();
  Child child([&] {
    const auto thrown = thrown_by([&] { Session::join(id, 0, 2, 1s); });
    const bool says =
        thrown.text.find("it must be in the process that made the unique id") != std::string::npos;
    return thrown.code == ErrorCode::system && says && thrown.ranks == std::vector<Rank>{0} ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(ForkGuard, TheChildCountsOneForkMoreAndLosesThePrivateDescriptors) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  const FileDescriptor shared(pair[0]);
  PrivateDescriptor mine{FileDescriptor(pair[1])};
  const auto before = fork_generation();
  Child child([&] {
    if (fork_generation() != before + 1) return 1;
    if (::send(mine.get(), "x", 1, MSG_NOSIGNAL) >= 0 || errno != ENOTSOCK) return 2;
    if ((::fcntl(mine.get(), F_GETFD) & FD_CLOEXEC) == 0) return 3;
    Child grandchild([&] { return fork_generation() == before + 2 ? 0 : 1; });
    return grandchild.wait() == 0 ? 0 : 4;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(fork_generation(), before);
  EXPECT_EQ(::send(mine.get(), "y", 1, MSG_NOSIGNAL), 1);
  char byte = 0;
  EXPECT_EQ(::recv(shared.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'y');
  const auto released = mine.release();
  Child unguarded([&] { return ::send(released.get(), "z", 1, MSG_NOSIGNAL) == 1 ? 0 : 1; });
  EXPECT_EQ(unguarded.wait(), 0);
}

// As some daemons start programs.
TEST(Process, WhatIsPrintedWhereStandardStreamsAreClosedIsNotSentToOthers) {
  const auto id = reserve_id("");
  std::vector<Child> children;
  for (const Rank rank : {0, 1})
    children.emplace_back([&, rank] {
      for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(stream);
      const auto session = Session::join(id, rank, 2, 10s);
      for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) static_cast<void>(!::write(stream, "words", 5));
      const bool good = session->all_gather(bytes("x"), 10s) == std::vector<Bytes>(2, bytes("x"));
      session->leave(10s);
      return good ? 0 : 1;
    });
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
}

// A limit of file descriptors is easily met: rank 0 has one connection to each.
TEST(Process, ALimitOfFileDescriptorsIsNamed) {
  constexpr int ranks = 16;
  const auto id = reserve_id("127.0.0.1");
  const auto names_the_limit = [](const Thrown& thrown) {
    return thrown.code == ErrorCode::timeout && thrown.text.find("ulimit -n") != std::string::npos;
  };
  Child zero([&] {
    const int next = ::dup(0);
    const auto most = static_cast<rlim_t>(next) + 12;
    const rlimit limit{most, most};
    if (::close(next) != 0 || ::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
    return names_the_limit(thrown_by([&] { Session::join(id, 0, ranks, 2s); })) ? 0 : 1;
  });
  std::atomic<int> told{0};
  on_threads(ranks - 1, [&](Rank i) {
    const auto thrown = thrown_by([&] { Session::join(id, i + 1, ranks, 4s); });
    if (names_the_limit(thrown)) ++told;
  });
  EXPECT_EQ(zero.wait(), 0);
  EXPECT_GT(told, 0);  // those that came in
}

// For the guard of forks, which takes one for itself, and so many more, whatever is open between them.
bool leave_descriptors(std::size_t count) {
  install_fork_guard();
  std::vector<FileDescriptor> room(count);
  for (auto& one : room) one = FileDescriptor(::dup(0));
  const auto most = static_cast<rlim_t>(room.back().get()) + 1;
  const rlimit limit{most, most};
  return room.back() && ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

// Also when somebody has given way to who came next, so that there is room again.
TEST(Process, ALimitOfFileDescriptorsThatWasMetIsNamedLater) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan reads objects through a pipe and takes its failure for a broken object";
#endif
  const auto id = reserve_id("127.0.0.1");
  Child zero([&] {
    if (!leave_descriptors(5)) return 2;  // a pair to itself, the listener, an event; one is left
    const auto thrown = thrown_by([&] { Session::join(id, 0, 2, 2s); });
    return thrown.code == ErrorCode::timeout && thrown.text.find("ulimit -n") != std::string::npos ? 0 : 1;
  });
  std::vector<FileDescriptor> silent;
  for (const Deadline deadline(20s); silent.size() < 2 && !deadline.passed();)
    if (auto one = try_connect(read(id).endpoint, deadline))
      silent.push_back(std::move(*one));
    else
      std::this_thread::sleep_for(1ms);
  EXPECT_EQ(zero.wait(), 0);
}

// Who came last does not give way while nobody else is there: it may be far away, and slow to answer.
TEST(Process, AsManyFileDescriptorsAsAreNeededAreEnough) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan reads objects through a pipe and takes its failure for a broken object";
#endif
  const auto id = reserve_id("127.0.0.1");
  Child zero([&] {
    if (!leave_descriptors(5)) return 2;  // a pair to itself, the listener, an event, the other rank
    return thrown_by([&] { Session::join(id, 0, 2, 20s)->leave(5s); }).code ? 1 : 0;
  });
  std::optional<FileDescriptor> slow;
  for (const Deadline deadline(20s); !slow && !deadline.passed(); std::this_thread::sleep_for(1ms))
    slow = try_connect(read(id).endpoint, deadline);
  ASSERT_TRUE(slow);
  EXPECT_TRUE(wait_for(slow->get(), POLLIN, Deadline(20s)));
  std::array<std::byte, 33> challenge{};
  EXPECT_EQ(receive_some(slow->get(), challenge), 32U);
  EXPECT_FALSE(wait_for(slow->get(), POLLIN, Deadline(100ms))) << "it was dropped";
  slow.reset();
  EXPECT_EQ(thrown_by([&] { Session::join(id, 1, 2, 20s)->leave(5s); }).text, "");
  EXPECT_EQ(zero.wait(), 0);
}

// And does not last: the launcher is looked for again.
TEST(Process, ALauncherThatIsShortOfFileDescriptorsIsFoundLater) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan reads objects through a pipe and takes its failure for a broken object";
#endif
  Child child([] {
    const Pmi1Server server;
    const Environment environment(server.variables(1));
    install_fork_guard();  // which takes one, too
    rlimit usual{};
    const int next = ::dup(0);
    if (::close(next) != 0 || ::getrlimit(RLIMIT_NOFILE, &usual) != 0) return 3;
    const rlimit none{static_cast<rlim_t>(next), usual.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 4;
    const auto refused = thrown_by([] { launch_from_environment("", 1s); });
    if (::setrlimit(RLIMIT_NOFILE, &usual) != 0) return 5;
    if (refused.text.find("ulimit -n") == std::string::npos) return 1;
    return thrown_by([] { launch_from_environment("", 50ms); }).code == ErrorCode::timeout ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace tutti::bootstrap::test
