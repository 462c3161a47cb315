// Programs that wait a little, or only ask, and do something else in between.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "communicator/impl.hpp"
#include "communicator/ranks.hpp"
#include "refused_calls.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;

/// How often it may be asked until something is noticed.
struct Way {
  std::string name;
  std::function<void(Work&)> ask;  ///< throws when the wait is over, one way or the other
};

class WaitsInParts : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Local, WaitsInParts,
                         testing::Values(Way{"short_waits", [](Work& work) { work.wait(30ms); }},
                                         Way{"no_waits", [](Work& work) { work.wait(0ms); }},
                                         Way{"tests", [](Work& work) { static_cast<void>(work.test()); }}),
                         [](const auto& way) { return way.param.name; });

/// What ends the waiting for a message of rank 1; timeouts of one part do not.
Thrown end_of_waiting(Communicator& comm, const Way& way) {
  std::int32_t token = 0;
  Async async = comm.async();
  Work work = async.receive(std::span(&token, 1), 1);
  Thrown thrown;
  for (const auto end = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < end;) {
    thrown = thrown_by([&] { way.ask(work); });
    const bool of_a_part = thrown.text.find("can be waited for again") != std::string::npos;
    if (!thrown.text.empty() && !of_a_part) break;
  }
  return thrown;
}

TEST_P(WaitsInParts, EndWithTheCommunicatorsDeadline) {
  std::atomic<bool> over{false};
  Options options;
  options.timeout = 500ms;
  run_local(
      2,
      [&](Communicator& comm) {
        if (comm.rank() == 1) return over.wait(false);
        const auto thrown = end_of_waiting(comm, GetParam());
        over = true;
        over.notify_all();
        EXPECT_EQ(thrown.code, ErrorCode::timeout);
        EXPECT_NE(thrown.text.find("nothing moved for"), std::string::npos) << thrown.text;
        EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
      },
      options);
}

TEST_P(WaitsInParts, NoticeADeadRank) {
  auto children = fork_ranks(2, Options{}, [&](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 1) ::raise(SIGKILL);
    const auto thrown = end_of_waiting(comm, GetParam());
    EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{1});
  });
  EXPECT_EQ(children[0].wait(), 0);
  children[1].wait();
}

// What is queued before an operation moves for longer than the communicator's timeout: that is no silence.
TEST_P(WaitsInParts, LastAsLongAsWhatIsBeforeThemMoves) {
  Options options;
  options.timeout = 500ms;
  constexpr std::size_t calls = 100;
  run_local(
      2,
      [&](Communicator& comm) {
        const std::vector<std::int32_t> one(64, 1);
        std::vector<std::vector<std::int32_t>> sums(calls, std::vector<std::int32_t>(one.size()));
        std::vector<Work> works;
        for (auto& sum : sums) {
          if (comm.rank() == 1) std::this_thread::sleep_for(15ms);
          if (comm.rank() == 1)
            comm.all_reduce(std::span(one), std::span(sum));
          else
            works.push_back(comm.async().all_reduce(std::span(one), std::span(sum)));
        }
        for (bool done = works.empty(); !done; std::this_thread::sleep_for(1ms)) {
          done = true;
          for (Work& work : works) {
            const auto thrown = thrown_by([&] { GetParam().ask(work); });
            const bool of_a_part = thrown.text.find("can be waited for again") != std::string::npos;
            ASSERT_TRUE(thrown.text.empty() || of_a_part) << thrown.text;
            done = done && work.test();
          }
        }
        for (const auto& sum : sums) ASSERT_EQ(sum, std::vector<std::int32_t>(one.size(), 2));
      },
      options);
}

// Another rank may have been waiting for this one all the time.
TEST(WaitsInPartsOfTheTime, WhenNobodyAskedDoNotCount) {
  Options options;
  options.timeout = 500ms;
  std::atomic<bool> asked_again{false};
  run_local(
      2,
      [&](Communicator& comm) {
        std::int32_t token = comm.rank();
        if (comm.rank() == 1) {
          asked_again.wait(false);
          comm.send(std::span<const std::int32_t>(&token, 1), 0);
          return;
        }
        Async async = comm.async();
        Work work = async.receive(std::span(&token, 1), 1);
        const auto thrown = thrown_by([&] {
          EXPECT_FALSE(work.test());
          std::this_thread::sleep_for(2 * options.timeout);  // it computes
          EXPECT_FALSE(work.test());
        });
        EXPECT_EQ(thrown.text, "");
        asked_again = true;
        asked_again.notify_all();
        work.wait();
        EXPECT_EQ(token, 1);
      },
      options);
}

// Of several that are asked in turn, the first finds what has come for all of them: a rank that has sent its
// part and left, over a slow network say, must not seem to be silent to the others.
TEST(WaitsInPartsOfTheTime, InWhichTheCommunicatorMovedForAnotherDoNotCount) {
  detail::Pending asked;
  detail::Movements until_now;
  Clock::time_point now{1s};
  const auto ask_again = [&] { asked.still(now += 50ms, until_now); };
  ask_again();
  for (int i = 0; i < 10; ++i) {
    ++until_now.of_thread, ++until_now.of_communicator;
    ask_again();
    EXPECT_EQ(asked.stuck, 0ms);
    EXPECT_EQ(asked.idle, 0ms);
  }
  ++until_now.of_thread;  // by another communicator
  ask_again();
  EXPECT_EQ(asked.stuck, 50ms);
  EXPECT_EQ(asked.idle, 0ms);
  ask_again();
  EXPECT_EQ(asked.stuck, 100ms);
  EXPECT_EQ(asked.idle, 50ms);
}

/// From here on this process sends so many bytes a second on each of its connections, as a slow network
/// would. Kernels begin with the tenth segment of one.
void slow_connections_down(unsigned rate) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ::setsockopt(std::stoi(entry.path().filename().string()), SOL_SOCKET, SO_MAX_PACING_RATE, &rate,
                 sizeof rate);
}

// What a rank that has left has sent is on its way for longer than is granted while none of it arrives: one
// long message of which parts arrive, then short ones that are asked for in turn.
TEST(WaitsInPartsOfTheTime, InWhichSomethingArrivesDoNotCountAgainstWhoHasLeft) {
  run_local(
      2,
      [](Communicator& comm) {
        constexpr std::size_t messages = 16, bytes = std::size_t{32} << 10U;
        std::vector<std::uint8_t> long_one(messages * bytes), short_ones(messages * bytes);
        const auto short_one = [&](std::size_t i) { return std::span(short_ones).subspan(i * bytes, bytes); };
        for (int segment = 0; segment < 10; ++segment) {
          if (comm.rank() == 1) comm.send(short_one(0).first(1), 0);
          if (comm.rank() == 0) comm.receive(short_one(0).first(1), 1);
          comm.barrier();
        }
        if (comm.rank() == 1) {
          slow_connections_down(3'000'000);
          comm.send(long_one, 0);
          for (std::size_t i = 0; i < messages; ++i) comm.send(short_one(i), 0);
          return;
        }
        comm.receive(long_one, 1);
        std::vector<Work> works;
        works.reserve(messages);
        for (std::size_t i = 0; i < messages; ++i) works.push_back(comm.async().receive(short_one(i), 1));
        for (bool done = false; !done;) {
          done = true;
          for (Work& work : works) done = work.test() && done;
        }
      },
      over("tcp", 20s));
}

// Threads copy it from where it is, half a MiB each time that they are asked.
TEST(WaitsInPartsOfTheTime, InWhichALongMessageIsReceivedDoNotCountAgainstItsReceiver) {
  run_local(
      2,
      [](Communicator& comm) {
        std::vector<std::uint8_t> data(std::size_t{24} << 20U, static_cast<std::uint8_t>(comm.rank()));
        comm.barrier();
        if (comm.rank() == 0) return comm.send(data, 1);
        Work work = comm.async().receive(data, 0);
        while (!work.test()) std::this_thread::sleep_for(15ms);
        EXPECT_EQ(data.back(), 0);
      },
      over("shm", 500ms));
}

// Likewise of another communicator, where its sender waits for something else that comes afterwards.
TEST(WaitsInPartsOfTheTime, InWhichALongMessageOfAnotherIsReceivedDoNotCount) {
  run_local(
      2,
      [](Communicator& comm) {
        Communicator other = comm.duplicate();
        std::vector<std::uint8_t> data(std::size_t{24} << 20U, static_cast<std::uint8_t>(comm.rank()));
        comm.barrier();
        if (comm.rank() == 0) {
          Work work = other.async().send(data, 1);
          comm.barrier();
          return work.wait();
        }
        Work work = other.async().receive(data, 0);
        while (!work.test()) std::this_thread::sleep_for(15ms);
        comm.barrier();
        EXPECT_EQ(data.back(), 0);
      },
      over("shm", 500ms));
}

// Threads reach each other's memory: a peer works on that of the others, a block each time that it is asked,
// and tells them when it has all of them.
TEST(WaitsInPartsOfTheTime, InWhichAPeerIsAtWorkOnBuffersDoNotCountAgainstIt) {
  constexpr std::size_t ranks = 6, bytes = std::size_t{1} << 20U;  // a block: such go this way at once
  run_local(
      ranks,
      [](Communicator& comm) {
        const bool reads = comm.rank() == 1;
        std::vector<std::size_t> to(ranks), from(ranks);
        if (!reads) {
          to[1] = bytes;
          const std::vector<std::uint8_t> sent(bytes, 7);
          return comm.all_to_all_v(sent, to, {}, std::span<std::uint8_t>(), from, {});
        }
        for (std::size_t r = 0; r < ranks; ++r) from[r] = r == 1 ? 0 : bytes;
        std::vector<std::uint8_t> received((ranks - 1) * bytes);
        Work work = comm.async().all_to_all_v(std::span<const std::uint8_t>(), to, {}, received, from, {});
        // The block after its own comes first, rank 0's last.
        const auto begun = [&] { return received[bytes] == 7; };
        const auto complete = [&] { return received[0] == 7; };
        while (!work.test()) std::this_thread::sleep_for(begun() && !complete() ? 700ms : 1ms);
        EXPECT_EQ(comm.stats().bytes_direct, received.size()) << "it went another way";
        EXPECT_EQ(received, std::vector<std::uint8_t>(received.size(), 7));
      },
      over("shm", 2500ms));
}

// Of a rank that was stopped, a job that was suspended say, in the middle of a long message.
TEST(WaitsInPartsOfTheTime, WhenNobodyLookedForPartsDoNotCount) {
  detail::Wait wait;
  wait.since = wait.stuck = Clock::time_point{1s};
  wait.part = wait.other_part = wait.checked = Clock::time_point{10s};
  wait.look(Clock::time_point{60s});
  EXPECT_EQ(Clock::time_point{60s} - wait.part, longest_unseen);
  EXPECT_EQ(Clock::time_point{60s} - wait.other_part, longest_unseen);
  EXPECT_EQ(Clock::time_point{60s} - wait.since, 9s + longest_unseen);
}

// Who waits in vain says for whom: a send whose turn came just now, say, as the one before it ended.
TEST(WaitsInPartsFor, WhatHasNotBegunAreForNobody) {
  Task task;
  EXPECT_TRUE(task.awaited().empty());
}

// The sender adds the last part of each while the receiver asks again and again.
TEST(WaitsInPartsFor, LongMessagesThatEndInAShortPart) {
  const Shared<std::atomic<int>> asked;
  run_processes(2, over("shm"), [&](Communicator& all) {
    refuse_calls(SYS_process_vm_readv, EPERM);  // so that they travel in parts
    Communicator comm = all.duplicate();
    std::vector<std::uint8_t> data((std::size_t{512} << 10U) + 100);
    for (int message = 0; message < 100; ++message) {
      if (comm.rank() == 0) {
        data.back() = static_cast<std::uint8_t>(message);
        const int before = *asked;
        Work work = comm.async().send(data, 1);
        while (*asked - before < 3) std::this_thread::yield();
        work.wait();
      } else {
        Work work = comm.async().receive(data, 0);
        Thrown thrown;
        do {
          thrown = thrown_by([&] { work.wait(0ms); });
          ++*asked;
        } while (thrown.code == ErrorCode::timeout);
        ASSERT_EQ(thrown.text, "") << "message " << message;
        ASSERT_EQ(data.back(), message);
      }
    }
  });
}

}  // namespace
}  // namespace tutti::test
