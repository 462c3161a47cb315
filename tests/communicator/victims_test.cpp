// Ranks whose processes end by themselves in the middle of an operation, also while others are at work on
// their memory, and killed ones with such memory.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"
#include "communicator/victims.hpp"

namespace tutti::test {
namespace {

class Ended : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Local, Ended,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(10, 200'000)),
                         transport_and_ranks);

// Nothing of the process says goodbye: not the communicator, nor the hub where it is rank 0.
TEST_P(Ended, ByItselfInTheMiddleOfAnOperation) {
  const auto [transport, count] = GetParam();
  for (const Ending& ending : endings_by_itself)
    for (const Rank victim : {0, 1, 2}) {
      SCOPED_TRACE("rank " + std::to_string(victim) + " ends " + ending.name);
      end_one(
          transport, victim,
          [&, count = static_cast<std::size_t>(count)](Communicator& comm, std::uint32_t round) {
            const Trial trial({.count = count, .seed = round % 8}, comm.rank(), comm.size());
            issue(comm, trial.call());
          },
          ending);
    }
}

// Ends what passes through it.
void catch_nothing(const std::function<void()>& body) noexcept { body(); }

struct LastCall {
  const char* name;
  void (*make)();
  int status;
};

// Of exit, static objects are destroyed; the communicator on the stack is not, and its work is under way.
TEST_P(Ended, WithWorkUnderWay) {
  const char* const transport = std::get<0>(GetParam());
  const auto count = static_cast<std::size_t>(std::get<1>(GetParam()));
  const LastCall last_calls[] = {
      {"by exit()", [] { std::exit(testing::Test::HasFailure() ? 1 : 0); }, 0},
      {"by an exception that nobody catches",
       [] { catch_nothing([] { throw std::runtime_error("nobody catches this, as this test wants it"); }); },
       -SIGABRT},
  };
  for (const LastCall& last : last_calls)
    for (const Rank victim : {0, 1, 2}) {
      SCOPED_TRACE("rank " + std::to_string(victim) + " ends " + last.name);
      const auto start = std::chrono::steady_clock::now();
      auto children = fork_ranks(3, over(transport, 20s), [&](Communicator& comm) {
        ::alarm(60);  // a rank that hangs ends
        std::vector<float> data(count);
        comm.all_reduce(std::span(data));
        if (comm.rank() == victim) {
          const rlimit none{0, 0};
          ::setrlimit(RLIMIT_CORE, &none);
          Work work = comm.async().all_reduce(std::span(data));
          last.make();
        }
        const auto thrown = thrown_by([&] {
          for (;;) comm.all_reduce(std::span(data));
        });
        expect_lost(thrown, victim);
      });
      for (Rank r = 0; r < 3; ++r)
        EXPECT_EQ(children[static_cast<std::size_t>(r)].wait(), r == victim ? last.status : 0)
            << "rank " << r;
      EXPECT_LT(std::chrono::steady_clock::now() - start, 10s) << "it is heard, not waited for";
    }
}

// Also that of the hub, which would have to tell the others.
TEST(EndedAtOnce, AfterAnAbortWhoseReasonAllHear) {
  for (const char* const transport : {"shm", "tcp"})
    for (const Rank victim : {0, 1}) {
      SCOPED_TRACE(std::string(transport) + ", rank " + std::to_string(victim));
      auto children = fork_ranks(3, over(transport, 20s), [&](Communicator& comm) {
        ::alarm(60);  // a rank that hangs ends
        if (comm.rank() == victim) {
          comm.barrier();  // which others may still be in when they hear of the abort
          comm.abort("the loss is not a number");
          std::_Exit(0);
        }
        const auto thrown = thrown_by([&] {
          for (;;) comm.barrier();
        });
        EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
        EXPECT_NE(thrown.text.find("the loss is not a number"), std::string::npos) << thrown.text;
      });
      for (Child& child : children) EXPECT_EQ(child.wait(), 0);
    }
}

// Rank 3 fails because rank 1 has died, but its words do not come through: the hub has stopped by then. Rank
// 2, which has waited and then stood still, finds both at once.
TEST(EndedBefore, IsTheCauseAlsoForWhoSeesThatAnotherHasFailedForIt) {
  struct Waiting {
    std::atomic<int> begun;
    std::atomic<bool> go_on;
  };
  const Shared<Waiting> waiting;
  auto children = fork_ranks(4, over("shm", 20s), [&](Communicator& comm) {
    ::alarm(60);  // a rank that hangs ends
    comm.barrier();
    ++waiting->begun;
    while (comm.rank() < 2 && !waiting->go_on) std::this_thread::sleep_for(1ms);
    expect_lost(thrown_by([&] { comm.barrier(); }), 1);
  });
  const auto tell = [&](std::size_t rank, int signal) { ::kill(children[rank].process(), signal); };
  for (const tutti::Deadline deadline(20s); waiting->begun != 4 && !deadline.passed();)
    std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(100ms);  // so that rank 2 waits
  children[2].stop();
  tell(1, SIGKILL);
  EXPECT_EQ(children[1].wait(), -SIGKILL);
  std::this_thread::sleep_for(50ms);  // the hub tells; what rank 1 had sent is granted twice as long
  children[0].stop();
  EXPECT_EQ(children[3].wait(), 0);
  tell(2, SIGCONT);
  EXPECT_EQ(children[2].wait(), 0);
  waiting->go_on = true;
  tell(0, SIGCONT);
  EXPECT_EQ(children[0].wait(), 0);
}

// Survivors read and write the memory of a process that is no more. It stays mapped, and theirs is whole.
void end_one_in_memory(Rank victim, const Ending& ending) {
  constexpr std::size_t count = (std::size_t{16} << 20U) / sizeof(float);
  SCOPED_TRACE("rank " + std::to_string(victim) + " ends " + ending.name);
  end_one_that("shm", victim, ending, [](Communicator& comm) -> std::function<void(std::uint32_t)> {
    return [&comm, buffer = comm.allocate<float>(count)](std::uint32_t round) {
      const auto before = comm.stats();
      std::fill_n(buffer.data(), 100, 1.0F);
      comm.all_reduce(buffer);
      EXPECT_EQ(buffer[99], 3.0F) << "round " << round;
      const auto after = comm.stats();
      EXPECT_GT(after.bytes_direct, before.bytes_direct) << "the library copied it";
    };
  });
}

TEST(EndedInMemory, WhileOthersReachItsBuffers) {
  for (const Rank victim : {0, 1, 2}) end_one_in_memory(victim, killed);
}

TEST(EndedInMemory, ByItselfWhileOthersReachItsBuffers) {
  for (const Ending& ending : endings_by_itself)
    for (const Rank victim : {0, 1, 2}) end_one_in_memory(victim, ending);
}

}  // namespace
}  // namespace tutti::test
