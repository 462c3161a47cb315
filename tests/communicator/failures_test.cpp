// What ranks see when others are late, abort, throw or leave. Killed ones: processes_test.cpp.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <latch>
#include <memory>
#include <thread>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

class Failures : public testing::TestWithParam<const char*> {
 protected:
  /// Algorithms are decided once for a number of ranks: not within the short deadlines of these tests, as
  /// that takes long under sanitizers.
  void SetUp() override {
    for (const int ranks : {2, 3, 4})
      run_local(
          ranks, [](Communicator& comm) { comm.barrier(); }, over(GetParam(), 30s));
  }
};
INSTANTIATE_TEST_SUITE_P(Local, Failures, testing::Values("shm", "tcp"), transport_name);

TEST_P(Failures, ADeadlineNamesOperationAndRank) {
  const auto results = outcomes(3, over(GetParam(), 400ms), [](Communicator& comm) {
    float value = 1;
    comm.barrier();
    comm.all_reduce(std::span(&value, 1));
    if (comm.rank() == 2) {
      std::this_thread::sleep_for(1s);        // this rank is busy elsewhere
      comm.all_reduce(std::span(&value, 1));  // the others' contributions may lie ready
      comm.barrier();
      return;
    }
    const auto start = Clock::now();
    const auto thrown = thrown_by([&] { comm.all_reduce(std::span(&value, 1)); });
    EXPECT_GT(Clock::now() - start, 380ms);
    EXPECT_LT(Clock::now() - start, 1400ms);
    EXPECT_TRUE(thrown.code == ErrorCode::timeout || thrown.code == ErrorCode::aborted) << thrown.text;
    if (thrown.code == ErrorCode::timeout) {
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{2}) << thrown.text;
    }
    for (const char* part :
         {"all_reduce(1 x float32, sum) #3",
          "rank 2 (last call on this communicator: all_reduce(1 x float32, sum) #2)", "TUTTI_TIMEOUT"})
      EXPECT_NE(thrown.text.find(part), std::string::npos) << thrown.text;
    // Poisoned, with the reason.
    const auto again = thrown_by([&] { comm.barrier(); });
    EXPECT_EQ(again.code, ErrorCode::aborted);
    EXPECT_NE(again.text.find("TUTTI_TIMEOUT"), std::string::npos) << again.text;
  });
  EXPECT_EQ(results[2].code, ErrorCode::aborted) << results[2].text;
}

TEST_P(Failures, AnAllocationAndARegistrationAreEachOneOfTheCallsThatAreNumbered) {
  std::latch asked(1);
  run_local(
      2,
      [&](Communicator& comm) {
        const auto memory = comm.allocate<float>(8);
        std::array<float, 8> plain{};
        const Registration registration = comm.register_memory(plain.data(), sizeof plain);
        if (comm.rank() == 0) {
          Work work = comm.async().barrier();
          const auto thrown = thrown_by([&] { work.wait(1ms); });
          EXPECT_EQ(thrown.code, ErrorCode::timeout) << thrown.text;
          EXPECT_NE(thrown.text.find("barrier() #3 on rank 0"), std::string::npos) << thrown.text;
          asked.count_down();
          work.wait();
        } else {
          asked.wait();
          comm.barrier();
        }
      },
      over(GetParam()));
}

TEST_P(Failures, AReceiveThatIsNeverAnsweredTimesOut) {
  outcomes(2, over(GetParam(), 300ms), [](Communicator& comm) {
    float value = 1;
    const Rank other = 1 - comm.rank();
    const auto thrown = thrown_by([&] { comm.receive(std::span(&value, 1), other); });
    // Whoever is later hears of the other's timeout.
    EXPECT_TRUE(thrown.code == ErrorCode::timeout || thrown.code == ErrorCode::aborted) << thrown.text;
    EXPECT_NE(thrown.text.find("receive(1 x float32, from rank " + std::to_string(other) + ") #1"),
              std::string::npos)
        << thrown.text;
    if (thrown.code == ErrorCode::timeout) {
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{other});
    }
  });
}

TEST_P(Failures, ADeadlineNamesTheReceiveThatAnotherRankIsIn) {
  outcomes(2, over(GetParam(), 300ms), [](Communicator& comm) {
    float value = 1;
    comm.all_reduce(std::span(&value, 1));
    const auto thrown = thrown_by([&] {
      if (comm.rank() == 0)
        comm.barrier();
      else
        comm.receive(std::span(&value, 1), 0);
    });
    EXPECT_TRUE(thrown.code == ErrorCode::timeout || thrown.code == ErrorCode::aborted) << thrown.text;
    // Whose time runs out first says it to both.
    EXPECT_TRUE(
        thrown.text.find("rank 1 (last call on this communicator: receive(1 x float32, from rank 0))") !=
            std::string::npos ||
        thrown.text.find("rank 0 (last call on this communicator: barrier() #2)") != std::string::npos)
        << thrown.text;
  });
}

TEST_P(Failures, AbortFromAnotherThreadReleasesEveryRank) {
  Clock::time_point aborted;
  const auto results = outcomes(3, over(GetParam(), 20s), [&](Communicator& comm) {
    std::vector<float> data(100'000);
    comm.barrier();
    if (comm.rank() == 2) {
      comm.receive(std::span(data), 0);  // never sent
      return;
    }
    std::jthread helper;
    if (comm.rank() == 0)
      helper = std::jthread([&] {
        std::this_thread::sleep_for(100ms);
        aborted = Clock::now();
        comm.abort("the disk is full");
        comm.abort("twice");
        EXPECT_LT(Clock::now() - aborted, 1s);
      });
    comm.all_reduce(std::span(data));
  });
  for (const auto& result : results) {
    EXPECT_EQ(result.code, ErrorCode::aborted) << result.text;
    EXPECT_NE(result.text.find("the disk is full"), std::string::npos) << result.text;
    EXPECT_LT(result.at - aborted, 1s);
  }
}

// The thread that aborts still tells the others. Sanitizers see what it would meet.
TEST_P(Failures, WhoIsReleasedByAnAbortMayDestroyTheCommunicatorAtOnce) {
  run_local(
      2,
      [](Communicator& comm) {
        for (int round = 0; round < 10; ++round) {
          std::jthread helper;
          const auto child = std::make_unique<Communicator>(comm.duplicate());
          if (comm.rank() == 0) helper = std::jthread([&aborted = *child] { aborted.abort("enough of it"); });
          float never_sent = 0;
          const auto thrown = thrown_by([&] { child->receive(std::span(&never_sent, 1), 1 - comm.rank()); });
          EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
        }
        comm.barrier();
      },
      over(GetParam()));
}

TEST_P(Failures, AbortEndsAsynchronousWorkAndSparesOtherCommunicators) {
  run_local(
      2,
      [](Communicator& comm) {
        Communicator other = comm.duplicate();
        {
          std::vector<float> data(50'000);
          Work work = other.async().all_reduce(std::span(data));
          if (comm.rank() == 0) other.abort("enough");
          static_cast<void>(thrown_by([&] { work.wait(); }));
          static_cast<void>(thrown_by([&] { other.barrier(); }));
        }
        expect_right(comm, {.count = 5000});
        EXPECT_EQ(thrown_by([&] { other.barrier(); }).code, ErrorCode::aborted);
        EXPECT_EQ(thrown_by([&] { static_cast<void>(other.duplicate()); }).code, ErrorCode::aborted);
        comm.barrier();
      },
      over(GetParam()));
}

TEST_P(Failures, AnExceptionOfOneRankEndsTheOthers) {
  for (const Rank guilty : {0, 2}) {
    std::vector<Thrown> seen(3);
    const auto run = [&] {
      run_local(
          3,
          [&](Communicator& comm) {
            if (comm.rank() == guilty) {
              comm.barrier();
              throw std::runtime_error("boom");
            }
            std::vector<float> data(1000);
            try {
              comm.barrier();
              for (;;) comm.all_reduce(std::span(data));
            } catch (const Error& error) {
              seen[static_cast<std::size_t>(comm.rank())] = {error.code(), error.ranks(), error.what()};
              throw;
            }
          },
          over(GetParam(), 10s));
    };
    EXPECT_THROW(run(), std::runtime_error);
    for (Rank r = 0; r < 3; ++r) {
      if (r == guilty) continue;
      const auto& thrown = seen[static_cast<std::size_t>(r)];
      EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
      EXPECT_EQ(thrown.ranks, std::vector<Rank>{guilty}) << thrown.text;
      // Nobody looks for a crash where a process goes on.
      const std::string why =
          "rank " + std::to_string(guilty) + " destroyed its communicator while an exception";
      EXPECT_NE(thrown.text.find(why), std::string::npos) << thrown.text;
    }
  }
}

TEST_P(Failures, RanksThatLeaveEarlyDisturbNobodyWhoDoesNotNeedThem) {
  const auto start = Clock::now();
  const auto results = outcomes(3, over(GetParam(), 10s), [&](Communicator& comm) {
    std::vector<std::int32_t> all(3), mine{comm.rank()};
    comm.barrier();
    if (comm.rank() == 1) std::this_thread::sleep_for(400ms);  // is late
    // Rank 2 has done its part, and leaves, long before the root is done.
    comm.gather(std::span<const std::int32_t>(mine), std::span(all), 0);
    if (comm.rank() == 2) return;
    if (comm.rank() == 0) {
      EXPECT_EQ(all, (std::vector<std::int32_t>{0, 1, 2}));
    }
    for (int i = 0; i < 2; ++i) {
      if (comm.rank() == 0) std::this_thread::sleep_for(200ms);
      if (comm.rank() == 0)
        comm.send(std::span<const std::int32_t>(mine), 1);
      else
        comm.receive(std::span(all.data(), 1), 0);
    }
    comm.barrier();  // needs rank 2
  });
  EXPECT_EQ(results[2].code, std::nullopt) << results[2].text;
  for (const Rank r : {0, 1}) {
    const auto& thrown = results[static_cast<std::size_t>(r)];
    EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{2}) << thrown.text;
    EXPECT_NE(thrown.text.find("barrier"), std::string::npos) << thrown.text;
    EXPECT_LT(thrown.at - start, 3s);
  }
}

TEST_P(Failures, CheckTellsOfThemWithoutACall) {
  struct Broken {};
  std::array<Thrown, 3> seen;
  EXPECT_THROW(run_local(
                   3,
                   [&](Communicator& comm) {
                     comm.barrier();
                     comm.check();
                     comm.barrier();
                     if (comm.rank() == 1) throw Broken();
                     seen[static_cast<std::size_t>(comm.rank())] = thrown_by([&] {
                       for (const Deadline deadline(2s); !deadline.passed(); std::this_thread::yield())
                         comm.check();
                     });
                     EXPECT_EQ(thrown_by([&] { comm.barrier(); }).code, ErrorCode::aborted);
                   },
                   over(GetParam())),
               Broken);
  for (const Rank r : {0, 2}) {
    const auto& thrown = seen[static_cast<std::size_t>(r)];
    EXPECT_EQ(thrown.code, ErrorCode::peer_lost) << thrown.text;
    EXPECT_EQ(thrown.ranks, std::vector<Rank>{1}) << thrown.text;
  }
}

TEST_P(Failures, RankZeroMayLeaveAndTheOthersStillHearOfEachOther) {
  Clock::time_point aborted;
  const auto results = outcomes(3, over(GetParam(), 20s), [&](Communicator& whole) {
    std::optional<Communicator> part = whole.split(whole.rank() == 0 ? -1 : 0);
    if (!part) return;
    std::this_thread::sleep_for(1500ms);  // rank 0 has stopped waiting for the others
    if (part->rank() == 0) {
      aborted = Clock::now();
      part->abort("enough");
    }
    part->barrier();
  });
  EXPECT_EQ(results[0].code, std::nullopt) << results[0].text;
  for (const Rank r : {1, 2}) {
    const auto& thrown = results[static_cast<std::size_t>(r)];
    EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
    EXPECT_LT(thrown.at - aborted, 1s);
  }
}

#ifdef __SANITIZE_THREAD__  // which takes seconds for each
constexpr int rounds_of_aborts = 4;
#else
constexpr int rounds_of_aborts = 24;
#endif

// Calls of four ranks that are threads, on memory of their own, until one of them aborts. Then all unmap it:
// whoever still touches another's crashes.
void expect_nobody_touches(std::size_t bytes, int round,
                           const std::function<void(Communicator&, std::uint8_t*)>& call) {
  outcomes(4, over("shm", 20s), [&](Communicator& comm) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    comm.barrier();
    std::jthread helper;
    if (comm.rank() == 1)
      helper = std::jthread([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(20000 + 700 * round));
        comm.abort("enough");
      });
    const auto thrown = thrown_by([&] {
      for (;;) call(comm, static_cast<std::uint8_t*>(memory));
    });
    ::munmap(memory, bytes);
    EXPECT_EQ(thrown.code, ErrorCode::aborted) << thrown.text;
  });
}

TEST(FailuresInMemory, NobodyTouchesTheBuffersOfARankThatFailed) {
  constexpr std::size_t block = std::size_t{4} << 20;
  for (int round = 0; round < rounds_of_aborts; ++round)
    expect_nobody_touches(5 * block, round, [&](Communicator& comm, std::uint8_t* data) {
      if (round % 2 == 1)
        comm.async().all_gather(data, data + block, block, DataType::uint8).wait();
      else
        comm.all_gather(data, data + block, block, DataType::uint8);
    });
}

TEST(FailuresInMemory, NobodyReadsWhatARankSendsThatFailed) {
  constexpr std::size_t half = std::size_t{4} << 20;
  for (int round = 0; round < rounds_of_aborts; ++round)
    expect_nobody_touches(2 * half, round, [&](Communicator& comm, std::uint8_t* data) {
      Group group = comm.group();
      group.send(data, half, DataType::uint8, (comm.rank() + 1) % 4);
      group.receive(data + half, half, DataType::uint8, (comm.rank() + 3) % 4);
      group.run();
    });
}

// Nobody announces that; but what it sent cannot be read any more, nor anything else that others sent so.
TEST(FailuresInMemory, WhoEndsItsCommunicatorWhileItSendsIsNamed) {
  const auto all = outcomes(3, over("shm", 20s), [](Communicator& comm) {
    constexpr std::size_t count = 100'000;
    std::vector<float> data(count);
    Work work;  // or it would be waited for
    Communicator other = comm.duplicate();
    if (other.rank() == 0) {
      work = other.async().send(data, 1);
      EXPECT_FALSE(work.test());
      return;  // and nobody waits
    }
    std::this_thread::sleep_for(200ms);
    if (other.rank() == 1) other.receive(data, 2);
    if (other.rank() == 2) other.send(data, 1);
  });
  for (const std::size_t rank : {1U, 2U}) {
    EXPECT_NE(all[rank].text.find("rank 0"), std::string::npos) << all[rank].text;
    EXPECT_EQ(all[rank].ranks, std::vector<Rank>{0}) << all[rank].text;
    EXPECT_LT(all[rank].at - all[0].at, 5s);
  }
}

TEST(FailuresOfThreads, ThatNameNobodyElseAreTheCause) {
  const auto error = thrown_by([&] {
    run_local(3, [](Communicator& comm) {
      comm.barrier();
      if (comm.rank() == 2) throw Error(ErrorCode::aborted, "my own reason");
      comm.barrier();
    });
  });
  EXPECT_NE(error.text.find("my own reason"), std::string::npos) << error.text;
}

TEST(Timeouts, WithoutALimitAreLongAndNoneIsRefused) {
  static constexpr auto for_ever = std::chrono::milliseconds::max();
  run_local(
      2,
      [](Communicator& comm) {
        float value = 1;
        Work work = comm.async().all_reduce(std::span(&value, 1));
        work.wait(for_ever);
        EXPECT_EQ(value, 2);
        if (comm.rank() == 1) std::this_thread::sleep_for(50ms);
        comm.barrier();
      },
      over("shm", for_ever));
  for (const auto timeout : {0ms, -1ms}) {
    const auto thrown = thrown_by([&] { Communicator::from_environment(over("shm", timeout)); });
    EXPECT_EQ(thrown.code, ErrorCode::invalid_argument);
    EXPECT_NE(thrown.text.find("Options::timeout"), std::string::npos) << thrown.text;
  }
}

TEST(Timeouts, ThatAreRefusedLeaveNothingOpen) {
  open_what_stays_open();
  const auto open = open_descriptors();
  EXPECT_EQ(thrown_by([] {
              run_local(
                  2, [](Communicator&) {}, over("shm", 0ms));
            }).code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(open_descriptors(), open);
}

// A little more than sockets hold, so that the sender only has to wait until it has gone.
TEST(FailuresOverTcp, WhoLeavesDoesNotFailATransferOfOthers) {
  for (const std::size_t kib : {4096, 4608, 5120}) {
    const auto results = outcomes(3, over("tcp", 10s), [&](Communicator& comm) {
      std::vector<std::uint8_t> data(kib << 10);
      comm.barrier();
      if (comm.rank() == 0) comm.send(data, 1);
      if (comm.rank() == 1) std::this_thread::sleep_for(500ms), comm.receive(data, 0);
    });
    for (const auto& result : results) EXPECT_EQ(result.code, std::nullopt) << result.text;
  }
}

// Rank 0, which keeps the group together, goes first.
TEST_P(Failures, RankZeroMayLeaveBeforeTheOthersAreDone) {
  const auto results = outcomes(3, over(GetParam(), 10s), [](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 0) return;
    const Rank other = 3 - comm.rank();
    for (std::int32_t i = 0; i < 4; ++i) {
      if (comm.rank() == 1) std::this_thread::sleep_for(350ms);
      std::int32_t theirs = -1;
      Group group = comm.group();
      group.send(std::span<const std::int32_t>(&i, 1), other);
      group.receive(std::span(&theirs, 1), other);
      group.run();
      EXPECT_EQ(theirs, i);
    }
  });
  for (const auto& result : results) EXPECT_EQ(result.code, std::nullopt) << result.text;
}

}  // namespace
}  // namespace tutti::test
