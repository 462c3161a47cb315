// What happens while something moves: who waits hears of an abort also when nothing has stopped.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "base/deadline.hpp"
#include "communicator/ranks.hpp"
#include "sanitized.hpp"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

// Sent and received without a pause, which is where a rank used to look around.
TEST(Meanwhile, AnAbortEndsACallThatMoves) {
  std::atomic<int> begun = 0;
  const auto results = outcomes(2, over("tcp", 20s), [&](Communicator& comm) {
    std::vector<std::uint8_t> data(std::size_t{256} << 20U);
    comm.barrier();
    std::jthread helper;
    if (comm.rank() == 0)
      helper = std::jthread([&] {
        while (begun != 2) std::this_thread::yield();
        comm.abort("enough");
      });
    ++begun;
    if (comm.rank() == 0)
      comm.send(std::span<const std::uint8_t>(data), 1);
    else
      comm.receive(std::span(data), 0);
  });
  for (const auto& result : results) {
    EXPECT_EQ(result.code, ErrorCode::aborted) << result.text;
    EXPECT_EQ(result.ranks, std::vector<Rank>{0}) << result.text;
  }
}

// Rank 0 waits in one communicator, which rank 2 aborts, while it moves what it sends in
// another, with rests or without.
void expect_heard(std::chrono::microseconds rest) {
  std::atomic<bool> queued = false, heard = false;
  int received = 0;
  constexpr int messages = 400;
  outcomes(3, over("tcp", 20s), [&](Communicator& comm) {
    Communicator other = comm.duplicate();
    Communicator last = comm.duplicate();
    std::vector<std::uint8_t> data(std::size_t{2} << 20U);
    comm.barrier();
    if (comm.rank() == 0) {
      std::vector<Work> works;
      for (int i = 0; i < messages; ++i)
        works.push_back(other.async().send(std::span<const std::uint8_t>(data), 1));
      queued = true;
      const auto thrown = thrown_by([&] { last.barrier(); });
      heard = true;
      EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{2}) << thrown.text;
      other.abort("that will do");
    }
    if (comm.rank() == 1)
      static_cast<void>(thrown_by([&] {
        for (; received < messages; ++received) {
          other.receive(std::span(data), 0);
          std::this_thread::sleep_for(rest);
        }
      }));
    if (comm.rank() == 2) {
      while (!queued) std::this_thread::yield();
      last.abort("enough");
      for (const Deadline deadline(15s); !heard && !deadline.passed();) std::this_thread::sleep_for(1ms);
    }
  });
  EXPECT_LT(received, messages);
}

TEST(Meanwhile, AnAbortIsHeardWhileAnotherCommunicatorMoves) { expect_heard(0us); }
TEST(Meanwhile, AnAbortIsHeardWhileAnotherCommunicatorMovesAndRests) { expect_heard(700us); }

// One of two may have its copy when the other one's is not made any more.
TEST(Meanwhile, AnAbortWhileACommunicatorIsMadeEndsItOnBoth) {
  for (const char* transport : {"shm", "tcp"})
    for (auto delay = 0us; delay < 1000us; delay += sanitized ? 250us : 50us) {
      std::atomic<int> have = 0, done = 0;
      outcomes(2, over(transport, 20s), [&](Communicator& comm) {
        std::optional<Communicator> copy;
        comm.barrier();
        std::jthread helper;
        if (comm.rank() == 1)
          helper = std::jthread([&] {
            for (const auto until = Clock::now() + delay; Clock::now() < until;) {
            }
            comm.abort("enough");
          });
        static_cast<void>(thrown_by([&] { copy.emplace(comm.duplicate()); }));
        if (copy) ++have;
        const auto start = Clock::now();
        if (copy) {
          const auto thrown = thrown_by([&] { copy->barrier(); });
          if (have != 2) {
            EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
          }
          EXPECT_LT(Clock::now() - start, 1s);
        }
        ++done;
        for (const Deadline deadline(25s); done != 2 && !deadline.passed();) std::this_thread::yield();
      });
    }
}

// The ring of a multicast is full when one of its readers does not read.
TEST(Meanwhile, ADeadlineNamesWhoDoesNotReadWhatGoesToAll) {
  std::atomic<bool> named = false;
  Options options = over("shm", 20s);
  options.algorithm = "all_pairs";
  run_local(
      3,
      [&](Communicator& comm) {
        std::vector<std::uint8_t> data(std::size_t{64} << 20U);
        comm.barrier();
        if (comm.rank() == 2)
          while (!named) std::this_thread::sleep_for(1ms);
        Work work = comm.async().broadcast(std::span(data), 0);
        if (comm.rank() == 0) {
          std::vector<Rank> ranks;
          for (const Deadline deadline(10s); ranks != std::vector<Rank>{2} && !deadline.passed();)
            ranks = thrown_by([&] { work.wait(50ms); }).ranks;
          EXPECT_EQ(ranks, std::vector<Rank>{2});
          named = true;
        }
        work.wait();
      },
      options);
}

// Also where that is found out while another communicator is waited for.
TEST(Meanwhile, AnAbortNamesACallThatItEnds) {
  for (const auto& result : outcomes(2, over("shm", 20s), [](Communicator& comm) {
         Communicator aborted = comm.duplicate();
         float never_sent = 0;
         Work work = aborted.async().receive(std::span(&never_sent, 1), 1 - comm.rank());
         aborted.abort("enough of it");
         comm.barrier();
         work.wait();
       })) {
    EXPECT_EQ(result.code, ErrorCode::aborted) << result.text;
    EXPECT_NE(result.text.find("receive(1 x float32, from rank "), std::string::npos) << result.text;
    EXPECT_NE(result.text.find("enough of it"), std::string::npos) << result.text;
  }
}

// The one that is waited for, not the last that was tried besides.
TEST(Meanwhile, AnAbortNamesOneCallOfAGroup) {
  const auto results = outcomes(2, over("shm", 20s), [](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 1) return comm.abort("enough of it");
    float never_sent = 0;
    Group group = comm.group();
    group.receive(std::span(&never_sent, 1), 1);
    group.barrier();
    group.run();
  });
  const std::string& text = results[0].text;
  EXPECT_NE(text.find("receive(1 x float32, from rank 1) #1 on rank 0: rank 1 aborted"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("barrier()"), std::string::npos) << text;
}

// Of two that one pass of the queue ends, one well.
TEST(Meanwhile, AFailureSparesWhatIsDone) {
  std::atomic<int> ready = 0;
  outcomes(3, over("shm", 20s), [&](Communicator& comm) {
    std::vector<float> data(std::size_t{1} << 20U);
    comm.barrier();
    if (comm.rank() == 0) {
      Work sent = comm.async().send(std::span<const float>(data), 1);
      Work received = comm.async().receive(std::span(data).first(1), 2);
      ready = 1;
      while (ready != 3) std::this_thread::yield();
      EXPECT_EQ(thrown_by([&] { sent.wait(); }).code, std::nullopt);
      EXPECT_EQ(thrown_by([&] { received.wait(); }).code, ErrorCode::mismatch);
      return;
    }
    while (ready == 0) std::this_thread::yield();
    if (comm.rank() == 1) {
      comm.receive(std::span(data), 0);
    } else {
      const double other = 1;
      comm.send(std::span(&other, 1), 0);
    }
    ++ready;
    while (ready != 3) std::this_thread::yield();
  });
}

}  // namespace
}  // namespace tutti::test
