// Windows when a rank dies, stops, leaves or aborts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <csignal>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "communicator/ranks.hpp"
#include "window/seats.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::HasSubstr;

class WindowFailures : public OverWays {};
INSTANTIATE_TEST_SUITE_P(Processes, WindowFailures,
                         testing::Values(Way::mapped, Way::attached, Way::tcp_processes),
                         [](const auto& way) { return name_of(way.param); });

TEST_P(WindowFailures, AKilledRankIsNoticedAndTheOthersGoOn) {
  run(
      GetParam(), 3,
      [](Seat& seat) {
        auto place = seat.place(4096, {.name = "kv"});
        Window& window = place.window;
        seat.barrier();
        if (seat.rank == 1) {
          window.notify(0, 1);
          window.flush();
          std::this_thread::sleep_for(100ms);
          ::raise(SIGKILL);
        }
        if (seat.rank == 0) {
          window.wait_notification(1);
          const auto start = steady_clock::now();
          const auto waiting = thrown_by([&] { window.wait_notification(2, 1, 1); });
          EXPECT_EQ(waiting.code, ErrorCode::peer_lost) << waiting.text;
          EXPECT_EQ(waiting.ranks, std::vector<Rank>{1});
          EXPECT_LT(steady_clock::now() - start, 1500ms);
          EXPECT_EQ(thrown_by([&] { window.wait_notification(2); }).code, ErrorCode::peer_lost);
          const auto writing = thrown_by([&] { window.put(1, {.bytes = 64}).wait(); });
          EXPECT_EQ(writing.code, ErrorCode::peer_lost) << writing.text;
          EXPECT_EQ(writing.ranks, std::vector<Rank>{1});
          EXPECT_THAT(writing.text,
                      HasSubstr("window \"kv\" on rank 0: put of 64 bytes, rank 1 at offset 0"));
          EXPECT_EQ(thrown_by([&] { window.fetch_add(1, 0, 1); }).code, ErrorCode::peer_lost);
        }
        // The two that live.
        const Rank other = 2 - seat.rank;
        window.fetch_add(other, 32, 5);
        window.put(other, {.local = 8, .remote = 16, .bytes = 8}, {.notify = 3});
        window.wait_notification(3, 1, other);
        window.flush(other);
        // The communicator has failed, and cannot say when the other is done with this rank's memory.
        window.notify(other, 4);
        window.wait_notification(4, 1, other);
      },
      20s, 1);
}

TEST_P(WindowFailures, ARankThatLeavesIsNamed) {
  run(GetParam(), 2, [](Seat& seat) {
    {
      auto place = seat.place(64);
      seat.barrier();
      if (seat.rank == 0) return;  // and its communicator goes, too
      const auto thrown = thrown_by([&] { place.window.wait_notification(0); });
      EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
      EXPECT_THAT(thrown.text, HasSubstr("rank 0 destroyed its communicator"));
      EXPECT_EQ(thrown_by([&] { place.window.put(0, {.bytes = 8}).wait(); }).code, ErrorCode::peer_lost);
    }
  });
}

TEST_P(WindowFailures, ARankThatDestroysTheWindowsCommunicatorIsNamed) {
  run(GetParam(), 2, [](Seat& seat) {
    {
      Communicator child = seat.communicator->duplicate();
      std::vector<std::byte> memory(64);
      Window window(child, std::span(memory));
      child.barrier();
      if (seat.rank == 1) {
        const auto start = steady_clock::now();
        const auto thrown = thrown_by([&] { window.wait_notification(0); });
        EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
        EXPECT_EQ(thrown.ranks, std::vector<Rank>{0});
        EXPECT_THAT(thrown.text, HasSubstr("rank 0 destroyed its communicator"));
        EXPECT_LT(steady_clock::now() - start, 5s) << "it is heard, not waited for";
        EXPECT_EQ(thrown_by([&] { window.put(0, {.bytes = 8}).wait(); }).code, ErrorCode::peer_lost);
      }
    }
    seat.barrier();
  });
}

// Whose failure ends the others' calls, but not their windows.
TEST_P(WindowFailures, ARankThatUnwindsPastTheWindowsCommunicatorIsNamed) {
  run(GetParam(), 2, [](Seat& seat) {
    try {
      Communicator child = seat.communicator->duplicate();
      std::vector<std::byte> memory(64);
      Window window(child, std::span(memory));
      if (seat.rank == 0) {
        window.wait_notification(1, 1, 1);  // the other has its window
        throw std::logic_error("boom");
      }
      window.notify(0, 1);
      const auto thrown = thrown_by([&] { window.wait_notification(0, 1, 0); });
      EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{0});
      EXPECT_THAT(thrown.text, HasSubstr("rank 0 destroyed its communicator"));
      EXPECT_EQ(thrown_by([&] { window.put(0, {.bytes = 8}).wait(); }).code, ErrorCode::peer_lost);
    } catch (const std::logic_error& error) {
      EXPECT_STREQ(error.what(), "boom");
    }
    seat.barrier();
  });
}

// Its memory goes first, and its connections may take long: here they stay, as another process has them, too.
TEST(WindowFailuresByAttach, WhoFindsADeadRankIsNotTakenForIt) {
  if (const auto why = why_not(Way::attached); !why.empty()) GTEST_SKIP() << why;
  run(
      Way::attached, 3,
      [](Seat& seat) {
        try {
          Communicator child = seat.communicator->duplicate();
          std::vector<std::byte> memory(64);
          Window window(child, std::span(memory));
          child.barrier();
          if (seat.rank == 2) {
            if (::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) ==
                0) {  // no atfork handlers
              ::sleep(2);
              ::_exit(0);
            }
            ::raise(SIGKILL);
          }
          if (seat.rank == 1)
            for (;;) window.put(2, {.bytes = 8}).wait();
          const auto thrown = thrown_by([&] { child.barrier(); });
          EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
          EXPECT_EQ(thrown.ranks, std::vector<Rank>{2}) << thrown.text;
        } catch (const Error& error) {
          EXPECT_EQ(seat.rank, 1);
          EXPECT_EQ(error.ranks(), std::vector<Rank>{2}) << error.what();
        }
      },
      20s, 2);
}

TEST(WindowWaits, NameThisRanksDeviceThatIsTakenAway) {
  if (const auto why = why_not(Way::verbs_fake); !why.empty()) GTEST_SKIP() << why;
  run(Way::verbs_fake, 2, [](Seat& seat) {
    auto place = seat.place(64);
    seat.barrier();
    if (seat.rank == 0) {
      place.window.put(1, {.bytes = 8}).wait();
      seat.lose_device();
      for (const auto& thrown : {thrown_by([&] { place.window.wait_notification(3); }),
                                 thrown_by([&] { place.window.put(1, {.bytes = 8}).wait(); })}) {
        EXPECT_EQ(thrown.code, ErrorCode::system) << thrown.text;
        EXPECT_EQ(thrown.ranks, std::vector<Rank>{0}) << thrown.text;
      }
    }
    seat.barrier();
  });
}

// Longer than the TCP_USER_TIMEOUT with which connections are made.
TEST(WindowDeadlines, AReaderMayBeBusyForLong) {
  run(Way::tcp_processes, 2, [](Seat& seat) {
    constexpr std::size_t bytes = 64 << 20;  // more than sockets hold
    auto place = seat.place(bytes);
    place.as<std::uint8_t>().back() = static_cast<std::uint8_t>(seat.rank + 1);
    seat.barrier();
    if (seat.rank == 0) {
      Transfer slow = place.window.get(1, {.local = 0, .remote = 0, .bytes = bytes});
      std::this_thread::sleep_for(13s);
      slow.wait();
      EXPECT_EQ(place.as<std::uint8_t>().back(), 2);
      place.window.notify(1, 0).wait();
    } else {
      place.window.wait_notification(0);
    }
  });
}

// Rank 1 comes to its notification only when rank 0 does its part of what it has started.
TEST(WindowWaits, MoveWhatTheirThreadHasStarted) {
  Options options;
  options.timeout = 10s;
  run_local(
      2,
      [](Communicator& comm) {
        std::vector<std::byte> memory(4096);
        Window window(comm, std::span(memory));
        std::vector<float> data(2'000'000, 1);
        if (comm.rank() == 1) {
          comm.all_reduce(std::span(data));
          window.notify(0, 1);
          window.flush();
        } else {
          Work work = comm.async().all_reduce(std::span(data));
          window.wait_notification(1, 1, 1);
          work.wait();
        }
        EXPECT_EQ(std::count(data.begin(), data.end(), 2.0F), 2'000'000);
        comm.barrier();
      },
      options);
}

// A rank that is stopped keeps its connections, but serves nothing.
TEST(WindowDeadlines, ATransferThatIsLateSaysWhichOne) {
  run(
      Way::tcp_processes, 2,
      [](Seat& seat) {
        constexpr std::size_t bytes = 64 << 20;  // more than sockets hold
        auto place = seat.place(bytes, {.name = "kv"});
        if (seat.rank == 1) {
          place.as<std::uint64_t>()[0] = static_cast<std::uint64_t>(::getpid());
          place.window.notify(0, 0);
          place.window.flush();
          place.window.wait_notification(5);
          ::raise(SIGSTOP);
          seat.barrier();
          return;
        }
        place.window.wait_notification(0);
        place.window.get(1, {.local = 0, .remote = 0, .bytes = 8}).wait();
        const auto other = static_cast<pid_t>(place.as<std::uint64_t>()[0]);
        place.window.notify(1, 5).wait();
        for (const Deadline deadline(10s); !is_stopped(other) && !deadline.passed();)
          std::this_thread::yield();
        const auto start = steady_clock::now();
        Transfer late = place.window.put(1, {.local = 0, .remote = 0, .bytes = bytes}, {.deadline = 200ms});
        const auto thrown = thrown_by([&] { late.wait(); });
        EXPECT_EQ(thrown.code, ErrorCode::timeout) << thrown.text;
        EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
        EXPECT_THAT(
            thrown.text,
            HasSubstr("window \"kv\" on rank 0: put of 67108864 bytes, rank 1 at offset 0: its deadline"));
        EXPECT_GE(steady_clock::now() - start, 200ms);
        EXPECT_EQ(thrown_by([&] { place.window.flush(); }).code, ErrorCode::timeout);
        EXPECT_EQ(thrown_by([&] { late.test(); }).code, ErrorCode::timeout);
        const auto shorter = thrown_by([&] { place.window.notify(1, 1).wait(50ms); });
        EXPECT_EQ(shorter.code, ErrorCode::timeout) << shorter.text;
        // It goes on where it stopped.
        ::kill(other, SIGCONT);
        for (const auto until = steady_clock::now() + 10s; steady_clock::now() < until;)
          if (!thrown_by([&] { place.window.flush(); }).code) break;
        place.window.flush();
        seat.barrier();
      },
      20s);
}

class WindowAborts : public OverWays {};
INSTANTIATE_TEST_SUITE_P(Threads, WindowAborts, testing::Values(Way::threads, Way::tcp_threads),
                         [](const auto& way) { return name_of(way.param); });

TEST_P(WindowAborts, AbortEndsWaitsOnAllRanks) {
  const auto start = steady_clock::now();
  run(GetParam(), 2, [](Seat& seat) {
    auto place = seat.place(64);
    seat.barrier();
    std::jthread helper;
    if (seat.rank == 0)
      helper = std::jthread([&] {
        std::this_thread::sleep_for(100ms);
        seat.communicator->abort("the disk is full");
      });
    const auto thrown = thrown_by([&] { place.window.wait_notification(0); });
    EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
    EXPECT_THAT(thrown.text, HasSubstr("the disk is full"));
    EXPECT_EQ(thrown_by([&] {
                for (;;) place.window.put(seat.rank, {.bytes = 8}).wait();
              }).code,
              ErrorCode::aborted);
  });
  EXPECT_LT(steady_clock::now() - start, 5s);
}

// Ranks that fail because another one did know of no abort.
TEST_P(WindowAborts, AFailureOfTheCommunicatorIsNone) {
  std::barrier<> failed(3), worked(3), over(3);
  run(GetParam(), 3, [&](Seat& seat) {
    auto place = seat.place(64);
    seat.barrier();
    const auto thrown = thrown_by([&] {
      std::vector<float> one(1);
      if (seat.rank == 0) seat.barrier();
      if (seat.rank == 1) seat.communicator->all_reduce(one);
      for (;; std::this_thread::yield()) seat.communicator->check();
    });
    EXPECT_THAT(thrown.code, testing::AnyOf(ErrorCode::mismatch, ErrorCode::aborted)) << thrown.text;
    failed.arrive_and_wait();
    const auto put_for = [&](std::chrono::milliseconds time) {
      return thrown_by([&] {
        for (const auto until = steady_clock::now() + time; steady_clock::now() < until;)
          place.window.put((seat.rank + 1) % 3, {.remote = 32, .bytes = 8}).wait();
      });
    };
    const auto working = put_for(200ms);
    EXPECT_FALSE(working.code) << working.text;
    worked.arrive_and_wait();
    if (seat.rank == 1) seat.communicator->abort("enough of it");
    const auto ended = put_for(10s);
    EXPECT_EQ(ended.code, ErrorCode::aborted) << ended.text;
    EXPECT_THAT(ended.text, HasSubstr("enough of it"));
    over.arrive_and_wait();
  });
}

TEST(WindowSetup, RanksThatWantDifferentWindowsAreToldSo) {
  run(Way::threads, 2, [](Seat& seat) {
    const auto thrown =
        thrown_by([&] { const auto place = seat.place(64, {.notifications = seat.rank == 0 ? 8U : 9U}); });
    EXPECT_EQ(thrown.code, ErrorCode::mismatch) << thrown.text;
    EXPECT_THAT(thrown.text, HasSubstr("rank 0 wants 8 notifications, rank 1 wants 9"));
    seat.barrier();
  });
}

// Whose window is ready may notify ranks whose own one the abort refuses, before it hears of that.
TEST(WindowSetup, ThatAnAbortEndsLeavesWhereOthersNotify) {
  constexpr int ranks = 4;
  std::array<Communicator*, ranks> all{};
  std::array<std::byte, ranks> memory{};
  std::atomic<bool> ready{false};
  run_local(ranks, [&](Communicator& world) {
    const auto me = static_cast<std::size_t>(world.rank());
    for (int lap = 0; lap < 25; ++lap) {
      Communicator comm = world.duplicate();
      all[me] = &comm;
      ready = false;
      world.barrier();
      std::optional<Window> window;
      const auto thrown = thrown_by([&] {
        window.emplace(comm, std::span(memory).subspan(me, 1));
        window->notify(world.rank(), 0);
        if (!ready.exchange(true))
          for (Communicator* one : all) one->abort("the first one is ready");
        for (;;)
          for (Rank to = 0; to < ranks; ++to) window->notify(to, 1);
      });
      EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
      world.barrier();
    }
  });
}

TEST(WindowSetup, AWindowThatOutlivesItsCommunicatorSaysSo) {
  std::vector<std::uint64_t> memory(8);
  Window window;
  EXPECT_FALSE(window);
  {
    Communicator alone = Communicator(UniqueId{}, 0, 1);
    window = Window(alone, memory);
    EXPECT_TRUE(window);
    EXPECT_EQ(window.fetch_add(0, 8, 5), 0U);
    EXPECT_EQ(memory[1], 5U);
  }
  EXPECT_EQ(thrown_by([&] { window.put(0, {.bytes = 8}); }).code, ErrorCode::aborted);  // at once
  EXPECT_EQ(thrown_by([&] { window.notify(0, 1); }).code, ErrorCode::aborted);
  EXPECT_EQ(thrown_by([&] { static_cast<void>(window.test_notification(1)); }).code, ErrorCode::aborted);
  EXPECT_EQ(thrown_by([&] { window.flush(); }).code, ErrorCode::aborted);
}

#ifndef __SANITIZE_THREAD__  // which sees one process
// Its counters went with the communicator, which its peer hears of a little later.
TEST(WindowSetup, AWindowThatOutlivesItsCommunicatorCountsNothingMore) {
  run_processes(2, over("shm", 20s), [](Communicator& comm) {
    auto child = std::optional(comm.duplicate());
    ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 0), 0);  // to the other one no way leads but TCP
    std::vector<std::byte> memory(64);
    Window window(*child, std::span(memory));
    const Rank other = 1 - comm.rank();
    ASSERT_THAT(window.path(other), testing::StartsWith("tcp to "));
    if (comm.rank() == 0) {
      const auto thrown = thrown_by([&] {
        for (;;) window.notify(other, 0);
      });
      EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
    } else {
      window.wait_notification(0, 1000);
      child.reset();
      EXPECT_EQ(thrown_by([&] { window.wait_notification(0); }).code, ErrorCode::aborted);
    }
    comm.barrier();
  });
}
#endif

TEST(WindowSetup, AForkedChildMayNotUseIt) {
  run(Way::attached, 1, [](Seat& seat) {
    auto place = seat.place(64);
    place.window.notify(0, 1).wait();
    auto done = place.window.notify(0, 1);
    done.wait();
    bootstrap::test::Child child([&] {
      const auto code_of = [](const auto& body) { return thrown_by(body).code; };
      if (code_of([&] { place.window.put(0, {.bytes = 8}); }) != ErrorCode::forked) return 1;
      // Also what has come.
      if (code_of([&] { place.window.wait_notification(1); }) != ErrorCode::forked) return 2;
      if (code_of([&] { static_cast<void>(place.window.test_notification(1)); }) != ErrorCode::forked)
        return 3;
      if (code_of([&] { done.wait(); }) != ErrorCode::forked) return 4;
      if (code_of([&] { done.test(); }) != ErrorCode::forked) return 5;
      if (code_of([&] { place.window.flush(0); }) != ErrorCode::forked) return 6;
      return 0;
    });
    EXPECT_EQ(child.wait(), 0);
    place.window.put(0, {.bytes = 8}).wait();
    place.window.wait_notification(1, 2);
  });
}

// The server's thread may be in the middle of what serves peers; it stays as it is in the child.
TEST(WindowSetup, AForkedChildOverTcpLeavesItsParentAlone) {
  run(Way::tcp_processes, 2, [](Seat& seat) {
    const Rank other = 1 - seat.rank;
    auto place = seat.place(64);
    place.window.put(other, {.local = 16, .remote = 24, .bytes = 8}).wait();
    const Batch batch = place.window.prepare_get(other, {});
    seat.barrier();
    bootstrap::test::Child child([&] {
      const auto code_of = [](const auto& body) { return thrown_by(body).code; };
      if (code_of([&] { place.window.get(other, {.bytes = 8}); }) != ErrorCode::forked) return 1;
      if (code_of([&] { place.window.notify(other, 1); }) != ErrorCode::forked) return 2;
      if (code_of([&] { place.window.post(batch); }) != ErrorCode::forked) return 3;
      if (code_of([&] { place.window.fetch_add(other, 0, 1); }) != ErrorCode::forked) return 4;
      if (code_of([&] { static_cast<void>(place.window.compare_swap(other, 0, 1, 2)); }) != ErrorCode::forked)
        return 5;
      if (code_of([&] { place.window.flush(); }) != ErrorCode::forked) return 6;
      const auto open = open_descriptors();
      { const Window dropped = std::move(place.window); }
      return open - open_descriptors() == 1 ? 0 : 7;  // the connection to the other's server
    });
    EXPECT_EQ(child.wait(), 0);
    place.window.fetch_add(other, 8, 5);
    place.window.notify(other, 1).wait();
    place.window.wait_notification(1, 1, other);
    EXPECT_EQ(place.as<std::uint64_t>()[1], 5U);
    seat.barrier();
  });
}

}  // namespace
}  // namespace tutti::test
