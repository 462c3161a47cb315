/// \file
/// Ranks as processes, of which one ends in the middle of what all do.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {

/// How a process ends. By a signal, which comes in the middle of whatever it does.
struct Ending {
  const char* name;
  int signal;
  void (*handler)(int);  ///< nullptr: as the signal ends it
  int status;            ///< as Child::wait says it
};
inline constexpr Ending killed{"killed", SIGKILL, nullptr, -SIGKILL};
inline constexpr Ending endings_by_itself[] = {
    {"by _exit(0)", SIGUSR1, [](int) { std::_Exit(0); }, 0},
    {"by _exit(3)", SIGUSR1, [](int) { std::_Exit(3); }, 3},
    {"by abort()", SIGUSR1, [](int) { std::abort(); }, -SIGABRT},
};

/// What ranks say of themselves to the test.
struct Progress {
  std::atomic<int> rounds[4];
  std::atomic<std::int64_t> thrown_at[4];
};

/// Sends to the next rank and receives from the previous one.
inline void exchange(Communicator& comm, std::size_t count) {
  std::vector<float> out(count, 1.0F), in(count);
  Group group = comm.group();
  group.send(std::span<const float>(out), (comm.rank() + 1) % comm.size());
  group.receive(std::span(in), (comm.rank() + comm.size() - 1) % comm.size());
  group.run();
}

/// Everybody fails for the same reason, also who hears first of another that has failed for it.
inline void expect_lost(const Thrown& thrown, Rank victim) {
  EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
  EXPECT_EQ(thrown.ranks, std::vector<Rank>{victim}) << thrown.text;
}

/// Repeats an operation until it fails, and says whether it failed for the right reason.
inline void repeat(Communicator& comm, const std::function<void(std::uint32_t)>& once, Rank victim,
                   Progress& progress) {
  const auto me = static_cast<std::size_t>(comm.rank());
  const auto thrown = thrown_by([&] {
    for (std::uint32_t round = 1;; ++round) {
      once(round);
      ++progress.rounds[me];
    }
  });
  progress.thrown_at[me] = std::chrono::steady_clock::now().time_since_epoch().count();
  expect_lost(thrown, victim);
}

/// Three ranks repeat what `begin` returns to each of them, until `victim` ends; the others notice within a
/// second and name it.
inline void end_one_that(const char* transport, Rank victim, const Ending& ending,
                         const std::function<std::function<void(std::uint32_t)>(Communicator&)>& begin) {
  using Clock = std::chrono::steady_clock;
  constexpr int ranks = 3;
  const Shared<Progress> progress;
  auto children = fork_ranks(ranks, over(transport, 20s), [&](Communicator& comm) {
    ::alarm(60);  // a rank that hangs ends
    if (ending.handler != nullptr && comm.rank() == victim) {
      const rlimit none{0, 0};
      ::setrlimit(RLIMIT_CORE, &none);
      std::signal(ending.signal, ending.handler);
    }
    const auto once = begin(comm);
    comm.barrier();
    repeat(comm, once, victim, *progress);
  });
  const auto slowest = [&] {
    return std::min({progress->rounds[0].load(), progress->rounds[1].load(), progress->rounds[2].load()});
  };
  for (const tutti::Deadline deadline(10s); slowest() < 3 && !deadline.passed();) std::this_thread::yield();
  ASSERT_GE(slowest(), 3) << "it does not run";
  const auto ended = Clock::now();
  ::kill(children[static_cast<std::size_t>(victim)].process(), ending.signal);
  for (Rank r = 0; r < ranks; ++r) {
    EXPECT_EQ(children[static_cast<std::size_t>(r)].wait(), r == victim ? ending.status : 0) << "rank " << r;
    const Clock::time_point thrown{Clock::duration(progress->thrown_at[r].load())};
    if (r != victim) {
      EXPECT_LT(thrown - ended, 1s) << "rank " << r;
    }
  }
}

/// The same for what needs nothing that is made once.
inline void end_one(const char* transport, Rank victim,
                    const std::function<void(Communicator&, std::uint32_t)>& once,
                    const Ending& ending = killed) {
  end_one_that(transport, victim, ending,
               [&](Communicator& comm) { return [&](std::uint32_t round) { once(comm, round); }; });
}

}  // namespace tutti::test
