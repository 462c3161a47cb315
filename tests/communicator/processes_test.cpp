// Ranks as processes: killed in the middle of every operation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/process.hpp"
#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "communicator/victims.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

class Killed : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Local, Killed,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(10, 200'000)),
                         transport_and_ranks);

TEST_P(Killed, InTheMiddleOfEveryOperation) {
  const auto [transport, count] = GetParam();
  Rank victim = 0;
  for (const Operation operation : data_operations()) {
    // One way only, so that nobody waits for the root's leaves: a barrier makes it everybody's.
    SCOPED_TRACE(std::string(name(operation)) + ", rank " + std::to_string(victim) + " killed");
    end_one(transport, victim,
            [&, count = static_cast<std::size_t>(count)](Communicator& comm, std::uint32_t round) {
              const Trial trial({.operation = operation, .count = count, .root = 1, .seed = round % 8},
                                comm.rank(), comm.size());
              issue(comm, trial.call());
              if (has_root(operation)) comm.barrier();
            });
    victim = (victim + 1) % 3;
  }
}

TEST_P(Killed, InTheMiddleOfSendsAndBarriers) {
  const auto [transport, count] = GetParam();
  for (const Rank victim : {0, 1, 2}) {
    SCOPED_TRACE(victim);
    end_one(transport, victim,
            [&, count = static_cast<std::size_t>(count)](Communicator& comm, std::uint32_t) {
              exchange(comm, count);
            });
  }
  end_one(transport, 2, [](Communicator& comm, std::uint32_t) { comm.barrier(); });
}

TEST_P(Killed, WhileTheOthersWaitInASubgroup) {
  const auto [transport, count] = GetParam();
  end_one(transport, 2, [&, count = static_cast<std::size_t>(count)](Communicator& comm, std::uint32_t) {
    Communicator copy = comm.duplicate();
    std::vector<float> data(count);
    copy.all_reduce(std::span(data));
  });
}

// A copy has connected nobody yet; whoever is stopped does not answer.
TEST(Processes, OfWhichOneCannotBeReachedEndTheCommunicatorByTheCall) {
  const std::function<void(Communicator&)> calls[] = {
      [](Communicator& comm) { comm.barrier(); },
      [](Communicator& comm) { static_cast<void>(comm.async().barrier()); },
      [](Communicator& comm) {
        Group group = comm.group();
        group.barrier();
        group.run();
      },
  };
  for (const auto& call : calls) {
    const Shared<std::atomic<pid_t>> stopped;
    auto children = fork_ranks(2, over("tcp", 2s), [&](Communicator& comm) {
      Communicator copy = comm.duplicate();
      comm.barrier();
      if (comm.rank() == 1) {
        *stopped = ::getpid();
        ::raise(SIGSTOP);
        return;
      }
      for (const tutti::Deadline deadline(10s); !is_stopped(*stopped) && !deadline.passed();)
        std::this_thread::yield();
      const auto thrown = thrown_by([&] { call(copy); });
      EXPECT_EQ(thrown.code, ErrorCode::timeout) << thrown.text;
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{1}) << thrown.text;
      EXPECT_NE(thrown.text.find("barrier() #1 on rank 0: tcp channel"), std::string::npos) << thrown.text;
      const auto again = thrown_by([&] { copy.barrier(); });
      EXPECT_EQ(again.code, ErrorCode::aborted) << again.text;
      EXPECT_NE(again.text.find("tcp channel"), std::string::npos) << again.text;
      ::kill(*stopped, SIGKILL);
    });
    EXPECT_EQ(children[0].wait(), 0);
    EXPECT_EQ(children[1].wait(), -SIGKILL);
  }
}

// As docs/errors.md says.
TEST(Processes, ThatAreLeftGoOnWithAnIdOfTheirs) {
  for (const Rank victim : {0, 1}) {
    auto children = fork_ranks(3, over("shm", 10s), [&](Communicator& comm) {
      std::vector<UniqueId> ids(3);
      const auto mine = UniqueId::create();
      comm.all_gather(mine.bytes.data(), ids.data(), UniqueId::size, DataType::uint8);
      if (comm.rank() == victim) ::raise(SIGKILL);
      const auto thrown = thrown_by([&] {
        for (;;) comm.barrier();
      });
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{victim}) << thrown.text;
      const Rank first = victim == 0 ? 1 : 0;
      comm = Communicator(ids[static_cast<std::size_t>(first)], comm.rank() == first ? 0 : 1, 2);
      int sum = 1;
      comm.all_reduce(std::span(&sum, 1));
      EXPECT_EQ(sum, 2);
    });
    for (Rank rank = 0; rank < 3; ++rank)
      EXPECT_EQ(children[static_cast<std::size_t>(rank)].wait(), rank == victim ? -SIGKILL : 0) << rank;
  }
}

TEST(Processes, AreSeenToEndBeforeTheirParentWaits) {
  Child child([] { return ::pause(); });
  const pid_t process = child.process();
  EXPECT_FALSE(has_ended(process));
  EXPECT_FALSE(has_ended(::getpid()));
  child.kill();
  for (const tutti::Deadline deadline(10s); !has_ended(process) && !deadline.passed();)
    std::this_thread::yield();
  EXPECT_TRUE(has_ended(process));
  child.wait();
  EXPECT_TRUE(has_ended(process));
}

// Without rank 0's process nobody announces anything.
class WithoutHub : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, WithoutHub, testing::Values("shm", "tcp"), transport_name);

// Whether rank 0 ends in order or is killed, too.
void expect_death_is_noticed(const char* transport, bool in_order) {
  const Shared<Progress> progress;
  auto children = fork_ranks(4, over(transport, 20s), [&](Communicator& comm) {
    std::optional<Communicator> part = comm.split(comm.rank() == 0 ? -1 : 0);
    if (!part) {
      while (!in_order) ::pause();
      return;
    }
    const auto me = static_cast<std::size_t>(comm.rank());
    const auto thrown = thrown_by([&] {
      for (;; ++progress->rounds[me]) exchange(*part, 10);
    });
    progress->thrown_at[me] = Clock::now().time_since_epoch().count();
    EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
    EXPECT_THAT(thrown.ranks, testing::ElementsAre(1)) << thrown.text;  // also on who sees only another fail
    EXPECT_THAT(thrown.text, testing::HasSubstr("rank 1 (world rank 2) ended its process"));
  });
  if (!in_order) {
    for (const tutti::Deadline deadline(10s); progress->rounds[3] < 100 && !deadline.passed();)
      std::this_thread::yield();
    children[0].kill();
  }
  ASSERT_EQ(children[0].wait(), in_order ? 0 : -SIGKILL);
  const int before = progress->rounds[3];
  for (const tutti::Deadline deadline(10s); progress->rounds[3] < before + 1000 && !deadline.passed();)
    std::this_thread::yield();
  ASSERT_GE(progress->rounds[3], before + 1000) << "the others do not go on";
  const auto killed = Clock::now();
  children[2].kill();
  EXPECT_EQ(children[2].wait(), -SIGKILL);
  for (const std::size_t r : {1U, 3U}) {
    EXPECT_EQ(children[r].wait(), 0) << "rank " << r;
    EXPECT_LT(Clock::time_point(Clock::duration(progress->thrown_at[r].load())) - killed, 1s);
  }
}

TEST_P(WithoutHub, ADeathIsNoticedAndNamed) { expect_death_is_noticed(GetParam(), true); }

TEST_P(WithoutHub, ADeathIsNoticedAlsoWhereRankZeroWasKilled) { expect_death_is_noticed(GetParam(), false); }

TEST_P(WithoutHub, AnAbortIsNoticedAndNamed) {
  struct Course {
    std::atomic<bool> rank_zero_has_ended;
    std::atomic<std::int64_t> aborted_at;
    std::atomic<int> noticed;
  };
  const Shared<Course> course;
  auto children = fork_ranks(4, over(GetParam(), 20s), [&](Communicator& comm) {
    ::alarm(60);  // a rank that hangs ends
    std::optional<Communicator> part = comm.split(comm.rank() == 0 ? -1 : 0);
    if (!part) return;
    if (comm.rank() == 3) {
      while (!course->rank_zero_has_ended) std::this_thread::sleep_for(1ms);
      course->aborted_at = Clock::now().time_since_epoch().count();
      part->abort("enough");
      while (course->noticed != 2) std::this_thread::sleep_for(1ms);  // or they could notice its end
      return;
    }
    const auto thrown = thrown_by([&] { part->barrier(); });
    const auto noticed = Clock::now();
    ++course->noticed;
    EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
    EXPECT_THAT(thrown.ranks, testing::Contains(2)) << thrown.text;
    EXPECT_LT(noticed - Clock::time_point(Clock::duration(course->aborted_at.load())), 1s);
  });
  EXPECT_EQ(children[0].wait(), 0);
  course->rank_zero_has_ended = true;
  for (const std::size_t r : {1U, 2U, 3U}) EXPECT_EQ(children[r].wait(), 0) << "rank " << r;
}

// What failed is seen in shared memory before the hub, in rank 0's process, can say why. Rank 2 waits for
// long.
TEST(Processes, HearTheCauseAlsoWhereRankZeroIsLate) {
  struct Course {
    std::atomic<int> begun;
    std::atomic<bool> rank_zero_is_stopped;
  };
  const Shared<Course> course;
  auto children = fork_ranks(3, over("shm", 20s), [&](Communicator& comm) {
    ::alarm(60);
    comm.barrier();
    ++course->begun;
    if (comm.rank() == 1) {
      while (!course->rank_zero_is_stopped) std::this_thread::sleep_for(1ms);
      comm.abort("the disk is full");
      return;
    }
    if (comm.rank() == 0) std::this_thread::sleep_for(1500ms);
    const auto thrown = thrown_by([&] { comm.barrier(); });
    EXPECT_EQ(thrown.code, ErrorCode::aborted);
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
    EXPECT_THAT(thrown.text, HasSubstr("the disk is full"));
  });
  while (course->begun != 3) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(700ms);
  children[0].stop();
  course->rank_zero_is_stopped = true;
  std::this_thread::sleep_for(100ms);
  ::kill(children[0].process(), SIGCONT);
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
}

// By a scheduler of jobs, say, or from a terminal: that others were not heard meanwhile is not their fault.
TEST(Processes, ThatWereStoppedForLongWaitOn) {
  struct Course {
    std::atomic<int> waiting;
    std::atomic<bool> waits_again, goes_on;
  };
  const Shared<Course> course;
  constexpr auto timeout = 10s;
  auto children = fork_ranks(3, over("shm", timeout), [&](Communicator& comm) {
    ::alarm(60);
    comm.barrier();
    std::int32_t token = comm.rank();
    if (comm.rank() == 1) {
      while (!course->goes_on) std::this_thread::sleep_for(1ms);
      for (const Rank stopped : {0, 2}) comm.send(std::span<const std::int32_t>(&token, 1), stopped);
      return;
    }
    if (comm.rank() == 0) {
      ++course->waiting;
      comm.receive(std::span(&token, 1), 1);
    } else {
      Work work = comm.async().receive(std::span(&token, 1), 1);
      ++course->waiting;
      const auto thrown = thrown_by([&] { work.wait(timeout / 2); });
      EXPECT_THAT(thrown.text, HasSubstr("can be waited for again"));
      course->waits_again = true;
      work.wait();
    }
    EXPECT_EQ(token, 1);
  });
  while (course->waiting != 2) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(100ms);  // it sleeps now and then
  for (const auto stopped : {0U, 2U}) children[stopped].stop();
  std::this_thread::sleep_for(timeout + 1s);
  for (const auto stopped : {0U, 2U}) ::kill(children[stopped].process(), SIGCONT);
  while (!course->waits_again) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(200ms);  // they look, and go on waiting
  course->goes_on = true;
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
}

TEST(Processes, HearWhyOneCannotMakeTheFirstCommunicator) {
  const UniqueId id = bootstrap::reserve_id("lo");
  std::vector<Child> children;
  for (Rank rank = 0; rank < 3; ++rank)
    children.emplace_back([&, rank] {
      Options options = over("tcp", 20s);
      if (rank == 1) options.tcp_congestion = "no_such";
      const auto start = Clock::now();
      const auto thrown = thrown_by([&] { const Communicator comm(id, rank, 3, options); });
      EXPECT_LT(Clock::now() - start, 10s);
      EXPECT_EQ(thrown.code, rank == 1 ? ErrorCode::invalid_argument : ErrorCode::aborted) << thrown.text;
      EXPECT_THAT(thrown.text, HasSubstr("no_such")) << "rank " << rank;
      if (rank != 1) {
        EXPECT_EQ(thrown.ranks, std::vector<Rank>{1}) << thrown.text;
        EXPECT_THAT(thrown.text, HasSubstr("rank 1 could not make the communicator: "));
      }
      std::fflush(nullptr);
      return testing::Test::HasFailure() ? 1 : 0;
    });
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
}

TEST(Processes, NameWhoDiesBeforeTheFirstCommunicatorIsMade) {
  const UniqueId id = bootstrap::reserve_id("lo");
  std::vector<Child> children;
  for (Rank rank = 0; rank < 4; ++rank)
    children.emplace_back([&, rank] {
      if (rank == 2) {
        const auto session = bootstrap::Session::join(id, rank, 4, 20s);
        std::_Exit(0);
      }
      const auto thrown = thrown_by([&] { const Communicator comm(id, rank, 4, over("shm", 20s)); });
      EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{2}) << thrown.text;
      std::fflush(nullptr);
      return testing::Test::HasFailure() ? 1 : 0;
    });
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
}

// So do ranks in user namespaces whose maps share no user: the kernel compares what both map to.
TEST(Processes, OfTwoUsersSaySo) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const UniqueId id = bootstrap::reserve_id("lo");
  std::vector<Child> children;
  for (Rank rank = 0; rank < 2; ++rank)
    children.emplace_back([&, rank] {
      constexpr uid_t other = 65'533;
      if (rank == 1) {
        EXPECT_EQ(::setresuid(other, other, other), 0);
      }
      const auto start = Clock::now();
      const auto thrown = thrown_by([&] { const Communicator comm(id, rank, 2, over("shm", 60s)); });
      EXPECT_LT(Clock::now() - start, 30s) << "it is heard of, not waited for";
      EXPECT_EQ(thrown.code, rank == 1 ? ErrorCode::unsupported : ErrorCode::aborted) << thrown.text;
      EXPECT_THAT(thrown.text, HasSubstr("this rank runs as user 65533, rank 0 of the same host as user 0"));
      EXPECT_THAT(thrown.text, HasSubstr("start all ranks of a host as one user"));
      std::fflush(nullptr);
      return testing::Test::HasFailure() ? 1 : 0;
    });
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
}

TEST(Processes, WithALimitOfFilesSaySo) {
  Child child([] {
    const rlimit little{rlim_t{1} << 30U, rlim_t{1} << 30U};
    ::setrlimit(RLIMIT_FSIZE, &little);
    const auto thrown = thrown_by([] { run_local(2, [](Communicator&) {}); });
    EXPECT_EQ(thrown.code, ErrorCode::system) << thrown.text;
    EXPECT_THAT(thrown.text, HasSubstr("ulimit -f"));
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Processes, RunEveryOperation) {
  for (const char* transport : {"shm", "tcp"})
    run_processes(4, over(transport), [](Communicator& comm) {
      for (const Operation operation : data_operations())
        for (const std::size_t count : {1, 500, 40'000})
          expect_right(comm, {.operation = operation, .count = count, .root = 2});
      auto half = comm.split(comm.rank() / 2);
      expect_right(*half, {.count = 300});
    });
}

// Profilers send hundreds of signals a second, and SA_RESTART does not restart poll(2).
TEST(Signals, DoNotDisturbRanksThatMakeCommunicators) {
  for (const char* transport : {"shm", "tcp"})
    run_processes(3, over(transport), [](Communicator& comm) {
      struct sigaction action {};
      action.sa_handler = [](int) {};
      action.sa_flags = SA_RESTART;
      ASSERT_EQ(::sigaction(SIGALRM, &action, nullptr), 0);
      const itimerval storm{{0, 500}, {0, 500}}, calm{};
      ASSERT_EQ(::setitimer(ITIMER_REAL, &storm, nullptr), 0);
      for (int i = 0; i < 60; ++i) comm.duplicate().barrier();
      ASSERT_EQ(::setitimer(ITIMER_REAL, &calm, nullptr), 0);
    });
}

TEST(Processes, WithoutRoomForThreadsSayWhich) {
  if (sanitized) GTEST_SKIP() << "sanitizers need address space themselves";
  Child child([] {
    const rlimit small{std::size_t{1} << 30, std::size_t{1} << 30};  // no room for 1000 stacks
    if (::setrlimit(RLIMIT_AS, &small) != 0) return 2;
    open_what_stays_open();
    const auto open = open_descriptors();
    const auto start = Clock::now();
    const auto thrown = thrown_by([] {
      run_local(
          1000, [](Communicator&) {}, over("tcp", 60s));
    });
    EXPECT_EQ(thrown.code, ErrorCode::system);
    EXPECT_THAT(thrown.text, testing::HasSubstr("cannot start a thread"));
    EXPECT_LT(Clock::now() - start, 20s);
    EXPECT_EQ(open_descriptors(), open);
    std::fflush(nullptr);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace tutti::test
