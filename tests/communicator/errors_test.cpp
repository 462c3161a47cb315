// What a program sees when calls are wrong or do not fit each other, and when ranks stop.
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "communicator/exercise.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

class Errors : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, Errors, testing::Values("shm", "tcp"), transport_name);

struct BadCall {
  const char* what;
  std::function<void(Communicator&)> make;
};

std::vector<BadCall> bad_calls() {
  static float memory[64];
  static const std::vector<std::size_t> two{1, 1}, three{1, 1, 1},
      huge{std::numeric_limits<std::size_t>::max() / 2, 1};
  constexpr auto f32 = DataType::float32;
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  float* const m = memory;
  return {
      {"null input", [=](Communicator& c) { c.all_reduce(nullptr, m, 3, f32); }},
      {"null output", [=](Communicator& c) { c.all_reduce(m, nullptr, 3, f32); }},
      {"null on the root of a reduce", [=](Communicator& c) { c.reduce(m, nullptr, 3, f32, c.rank()); }},
      {"null on the root of a broadcast",
       [=](Communicator& c) { c.broadcast(nullptr, m, 3, f32, c.rank()); }},
      {"null blocks", [=](Communicator& c) { c.all_gather_v(nullptr, m, two, {}, f32); }},
      {"overlap", [=](Communicator& c) { c.all_reduce(m, m + 1, 3, f32); }},
      {"overlap of the wrong block",
       [=](Communicator& c) { c.all_gather(m + 3 * (1 - c.rank()), m, 3, f32); }},
      {"overlap of a scatter", [=](Communicator& c) { c.scatter(m, m + 1, 3, f32, c.rank()); }},
      {"in place that does not exist", [=](Communicator& c) { c.all_to_all_v(m, two, {}, m, two, {}, f32); }},
      {"type code", [=](Communicator& c) { c.all_reduce(m, m, 3, static_cast<DataType>(12)); }},
      {"reduction code", [=](Communicator& c) { c.all_reduce(m, m, 3, f32, static_cast<ReduceOp>(5)); }},
      {"negative root", [=](Communicator& c) { c.broadcast(m, m, 3, f32, -1); }},
      {"root past the end", [=](Communicator& c) { c.gather(m, m + 32, 3, f32, 2); }},
      {"peer past the end", [=](Communicator& c) { c.send(m, 3, f32, 2); }},
      {"overflow", [=](Communicator& c) { c.all_reduce(m, m, most / 2, f32); }},
      {"overflow by the number of ranks", [=](Communicator& c) { c.all_gather(m, m, most / 8 + 1, f32); }},
      {"overflow of counts", [=](Communicator& c) { c.all_gather_v(m, m + 32, huge, {}, f32); }},
      {"overflow of displacements", [=](Communicator& c) { c.all_gather_v(m, m + 32, two, huge, f32); }},
      {"too many counts", [=](Communicator& c) { c.all_gather_v(m, m + 32, three, {}, f32); }},
      {"too few counts", [=](Communicator& c) { c.reduce_scatter_v(m, m + 32, {}, {}, f32); }},
      {"too many displacements",
       [=](Communicator& c) { c.all_to_all_v(m, two, three, m + 32, two, {}, f32); }},
      {"sizes of spans",
       [=](Communicator& c) { c.all_reduce(std::span<const float>(m, 3), std::span(m + 8, 4)); }},
      {"blocks that do not divide",
       [=](Communicator& c) { c.all_to_all(std::span<const float>(m, 3), std::span(m + 8, 3)); }},
      {"a group that refuses", [=](Communicator& c) { c.group().all_reduce(nullptr, m, 3, f32); }},
      {"an asynchronous call", [=](Communicator& c) { c.async().all_reduce(nullptr, m, 3, f32).wait(); }},
      {"no memory to register",
       [=](Communicator& c) { static_cast<void>(c.register_memory(nullptr, 4096)); }},
  };
}

TEST_P(Errors, BadArgumentsAreRefusedAndHarmNothing) {
  run_local(
      2,
      [](Communicator& comm) {
        for (const BadCall& bad : bad_calls()) {
          const auto thrown = thrown_by([&] { bad.make(comm); });
          EXPECT_EQ(thrown.code, ErrorCode::invalid_argument) << bad.what << ": " << thrown.text;
          expect_right(comm, {.count = 100});
        }
      },
      over(GetParam()));
}

struct Mismatch {
  const char* what;
  std::function<void(Communicator&)> usual, odd;
  std::string usual_text, odd_text;  ///< in every rank's message
};

std::vector<Mismatch> mismatches() {
  thread_local float a[200'000], b[600'000];
  static const std::vector<std::size_t> one{1, 2, 3}, other{2, 2, 2};
  constexpr auto f32 = DataType::float32;
  const auto all_reduce = [](std::size_t count, DataType type = DataType::float32,
                             ReduceOp op = ReduceOp::sum) {
    return [=](Communicator& c) { c.all_reduce(a, b, count, type, op); };
  };
  const auto broadcast = [](std::size_t count, Rank root) {
    return [=](Communicator& c) { c.broadcast(a, b, count, f32, root); };
  };
  const auto gather_v = [](const std::vector<std::size_t>& counts) {
    return [&](Communicator& c) { c.all_gather_v(a, b, counts, {}, f32); };
  };
  const auto to_all_v = [](const std::vector<std::size_t>& counts) {
    return [&](Communicator& c) { c.all_to_all_v(a, counts, {}, b, other, {}, f32); };
  };
  return {
      {"operation", all_reduce(10), broadcast(10, 0), "all_reduce(10 x float32, sum)",
       "broadcast(10 x float32, root 0)"},
      {"barrier", [](Communicator& c) { c.barrier(); }, all_reduce(10), "barrier()", "all_reduce(10 x"},
      {"count", all_reduce(10), all_reduce(11), "all_reduce(10 x", "all_reduce(11 x"},
      {"count, another form of message", all_reduce(10), all_reduce(5'000), "all_reduce(10 x",
       "all_reduce(5000 x"},
      {"count, the other way", all_reduce(5'000), all_reduce(10), "all_reduce(5000 x", "all_reduce(10 x"},
      {"large counts", all_reduce(100'000), all_reduce(200'000), "all_reduce(100000 x",
       "all_reduce(200000 x"},
      {"count 0", all_reduce(10), all_reduce(0), "all_reduce(10 x", "all_reduce(0 x"},
      {"type", all_reduce(10), all_reduce(10, DataType::int32), "10 x float32", "10 x int32"},
      {"large type", all_reduce(50'000), all_reduce(50'000, DataType::int32), "50000 x float32",
       "50000 x int32"},
      {"reduction", all_reduce(10), all_reduce(10, f32, ReduceOp::max), "sum)", "max)"},
      {"root", broadcast(10, 0), broadcast(10, 1), "root 0)", "root 1)"},
      {"large root", broadcast(90'000, 2), broadcast(90'000, 1), "root 2)", "root 1)"},
      {"counts of blocks", gather_v(one), gather_v(other), "all_gather_v(6 x", "all_gather_v(6 x"},
      {"counts between two", to_all_v(other), to_all_v(one), "all_to_all_v(12 x", "all_to_all_v(12 x"},
  };
}

TEST_P(Errors, CallsThatDifferAreNamedOnEveryRank) {
  for (const Rank odd : {0, 1}) {
    const std::size_t cases = mismatches().size();
    for (std::size_t i = 0; i < cases; ++i) {
      const auto start = Clock::now();
      std::string usual, other, what;
      const auto results = outcomes(3, over(GetParam(), 10s), [&](Communicator& comm) {
        const Mismatch mismatch = mismatches()[i];
        if (comm.rank() == odd) {
          usual = mismatch.usual_text;
          other = mismatch.odd_text;
          what = mismatch.what;
        }
        comm.barrier();
        (comm.rank() == odd ? mismatch.odd : mismatch.usual)(comm);
        comm.barrier();  // a rank whose part was over early learns of it here
      });
      SCOPED_TRACE(what + ", odd rank " + std::to_string(odd));
      for (const auto& result : results) {
        EXPECT_TRUE(result.code == ErrorCode::mismatch || result.code == ErrorCode::aborted) << result.text;
        EXPECT_NE(result.text.find(usual), std::string::npos) << result.text;
        EXPECT_NE(result.text.find(other), std::string::npos) << result.text;
        EXPECT_LT(result.at - start, 2s + 500ms);  // half a second to join
      }
    }
  }
}

TEST_P(Errors, ADeadlineNamesOperationAndRank) {
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
    for (const char* part : {"all_reduce(1 x float32, sum) #3",
                             "rank 2 (last called all_reduce(1 x float32, sum) #2)", "TUTTI_TIMEOUT"})
      EXPECT_NE(thrown.text.find(part), std::string::npos) << thrown.text;
    // Poisoned, with the reason.
    const auto again = thrown_by([&] { comm.barrier(); });
    EXPECT_EQ(again.code, ErrorCode::aborted);
    EXPECT_NE(again.text.find("TUTTI_TIMEOUT"), std::string::npos) << again.text;
  });
  EXPECT_EQ(results[2].code, ErrorCode::aborted) << results[2].text;
}

TEST_P(Errors, AReceiveThatIsNeverAnsweredTimesOut) {
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

TEST_P(Errors, AbortFromAnotherThreadReleasesEveryRank) {
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

TEST_P(Errors, AbortEndsAsynchronousWorkAndSparesOtherCommunicators) {
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

TEST_P(Errors, AnExceptionOfOneRankEndsTheOthers) {
  for (const Rank guilty : {0, 2}) {
    std::vector<Thrown> seen(3);
    const auto run = [&] {
      run_local(
          3,
          [&](Communicator& comm) {
            comm.barrier();
            if (comm.rank() == guilty) throw std::runtime_error("boom");
            std::vector<float> data(1000);
            try {
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
    }
  }
}

TEST_P(Errors, RanksThatLeaveEarlyDisturbNobodyWhoDoesNotNeedThem) {
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

}  // namespace
}  // namespace tutti::test
