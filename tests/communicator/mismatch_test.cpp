// Ranks that make different calls: every rank learns which.
#include <gtest/gtest.h>

#include <future>

#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

class Mismatches : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Local, Mismatches, testing::Values("shm", "tcp"), transport_name);

struct Mismatch {
  const char* what;
  std::function<void(Communicator&)> usual, odd;
  std::string usual_text, odd_text;  ///< in every rank's message
};

std::vector<Mismatch> mismatches() {
  thread_local float a[200'000], b[600'000];
  static const std::vector<std::size_t> one{1, 2, 3}, other{2, 2, 2}, more{2, 2, 3};
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
  const auto scatter_v = [](const std::vector<std::size_t>& counts) {
    return [&](Communicator& c) { c.reduce_scatter_v(a, b, counts, {}, f32); };
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
      // No message of theirs differs, but the next one's.
      {"type of nothing", all_reduce(0), all_reduce(0, DataType::int32), "0 x float32", "0 x int32"},
      {"type", all_reduce(10), all_reduce(10, DataType::int32), "10 x float32", "10 x int32"},
      {"large type", all_reduce(50'000), all_reduce(50'000, DataType::int32), "50000 x float32",
       "50000 x int32"},
      {"reduction", all_reduce(10), all_reduce(10, f32, ReduceOp::max), "sum)", "max)"},
      {"root", broadcast(10, 0), broadcast(10, 1), "root 0)", "root 1)"},
      {"large root", broadcast(90'000, 2), broadcast(90'000, 1), "root 2)", "root 1)"},
      {"counts of blocks", gather_v(one), gather_v(other), "all_gather_v(1, 2, 3 x",
       "all_gather_v(2, 2, 2 x"},
      {"counts of inputs", scatter_v(one), scatter_v(other), "reduce_scatter_v(1, 2, 3 x",
       "reduce_scatter_v(2, 2, 2 x"},
      {"counts between two", to_all_v(other), to_all_v(more),
       "all_to_all_v(sends 2, 2, 2, receives 2, 2, 2 x", "all_to_all_v(sends 2, 2, 3"},
      {"split", [](Communicator& c) { (void)c.split(0); }, [](Communicator& c) { (void)c.duplicate(); },
       "split()", "duplicate()"},
      {"a step of split", [](Communicator& c) { (void)c.split(0); },
       [](Communicator& c) { c.all_gather(a, b, 8, DataType::uint8); }, "split()", "all_gather(8 x uint8"},
      {"allocate", [](Communicator& c) { (void)c.allocate<float>(10); }, [](Communicator& c) { c.barrier(); },
       "allocate()", "barrier()"},
      {"register_memory", [](Communicator& c) { (void)c.register_memory(a, sizeof a); },
       [](Communicator& c) { (void)c.allocate<float>(10); }, "register_memory()", "allocate()"},
      {"window", [](Communicator& c) { const Window window(c, std::span(a)); },
       [](Communicator& c) { c.barrier(); }, "making a window", "barrier()"},
      {"predict", [](Communicator& c) { (void)c.predict({.operation = Operation::barrier}); },
       [](Communicator& c) { (void)c.split(0); }, "predict()", "split()"},
  };
}

TEST_P(Mismatches, AreNamedOnEveryRank) {
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

// The log has the first counts, and the sum of all.
TEST_P(Mismatches, OfOneOfManyBlocksAreToldApart) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "nine ranks take long, and their threads are those of three";
#endif
  constexpr int ranks = 9;
  for (const bool reduces : {false, true}) {
    const auto results = outcomes(ranks, over(GetParam(), 20s), [&](Communicator& comm) {
      std::vector<std::size_t> counts(ranks, 1);
      if (comm.rank() == 4) counts[8] = 3;
      std::vector<float> one(3), all(12);
      comm.barrier();  // or one hears of it while it makes its communicator
      if (reduces)
        comm.reduce_scatter_v(all.data(), one.data(), counts, {}, DataType::float32);
      else
        comm.all_gather_v(one.data(), all.data(), counts, {}, DataType::float32);
      comm.barrier();
    });
    const std::string call =
        std::string(reduces ? "reduce_scatter_v" : "all_gather_v") + "(1, 1, 1, 1, 1, 1, 1, 1, ... in all ";
    for (const auto& result : results) {
      EXPECT_TRUE(result.code == ErrorCode::mismatch || result.code == ErrorCode::aborted) << result.text;
      EXPECT_NE(result.text.find(call + "9 x float32"), std::string::npos) << result.text;
      EXPECT_NE(result.text.find("rank 4 called " + call + "11 x float32"), std::string::npos) << result.text;
    }
  }
}

// A root of broadcasts runs ahead of who takes them.
TEST_P(Mismatches, OfCallsLongBeforeTheLastAreNamed) {
  const auto results = outcomes(2, over(GetParam(), 10s), [](Communicator& comm) {
    std::vector<float> data(11);
    if (comm.rank() == 0)
      for (int i = 0; i < 24; ++i) comm.broadcast(std::span(data).first(10), 0);
    else
      comm.broadcast(std::span(data), 0);
    comm.barrier();
  });
  EXPECT_EQ(results[1].code, ErrorCode::mismatch) << results[1].text;
  for (const auto& result : results) {
    EXPECT_NE(result.text.find("rank 0 called broadcast(10 x float32, root 0)"), std::string::npos)
        << result.text;
    EXPECT_NE(result.text.find("broadcast(11 x float32, root 0)"), std::string::npos) << result.text;
  }
}

// A rank is ahead by as many short calls as FIFOs hold.
TEST(MismatchesInSharedMemory, OfCallsFarBehindAreNamed) {
  std::promise<void> far_ahead;
  const auto results = outcomes(2, over("shm", 10s), [&](Communicator& comm) {
    std::vector<float> data(11);
    comm.barrier();
    if (comm.rank() == 0) {
      for (int i = 0; i < 100; ++i) comm.broadcast(std::span(data).first(10), 0);
      far_ahead.set_value();
    } else {
      ASSERT_EQ(far_ahead.get_future().wait_for(10s), std::future_status::ready);
      comm.broadcast(std::span(data), 0);
    }
    comm.barrier();
  });
  EXPECT_EQ(results[1].code, ErrorCode::mismatch) << results[1].text;
  for (const auto& result : results) {
    EXPECT_NE(result.text.find("call 2: rank 1 called broadcast(11 x float32, root 0), rank 0 called "
                               "broadcast(10 x float32, root 0)"),
              std::string::npos)
        << result.text;
  }
}

// Of which 1 is one, too.
TEST(MismatchesInSharedMemory, OfAFactorOnSomeRanksAloneAreTold) {
  for (const auto& result : outcomes(2, over("shm", 10s), [](Communicator& comm) {
         std::vector<float> data(10);
         comm.all_reduce(std::span(data), comm.rank() == 0 ? Reduction(ReduceOp::sum) : scaled_sum(1));
         comm.barrier();
       })) {
    EXPECT_EQ(result.code, ErrorCode::mismatch) << result.text;
    EXPECT_NE(result.text.find("called all_reduce(10 x float32, sum) with other options, schedule, factor or "
                               "counts"),
              std::string::npos)
        << result.text;
  }
}

// Over TCP, too: ranks of one host see each other's log.
TEST_P(Mismatches, OfLengthsAmongSeveralNameTheSender) {
  const auto results = outcomes(3, over(GetParam(), 10s), [](Communicator& comm) {
    const std::vector<float> in(200);
    std::vector<float> out(200);
    const std::vector<std::size_t> expected{30, 40, 50};
    std::vector<std::size_t> sent(3, expected[static_cast<std::size_t>(comm.rank())]);
    if (comm.rank() == 2) sent[0] = 49;
    comm.all_to_all_v(std::span(in), sent, {}, std::span(out), expected, {});
    comm.barrier();
  });
  EXPECT_EQ(results[0].code, ErrorCode::mismatch) << results[0].text;
  EXPECT_EQ(results[0].ranks, (std::vector<Rank>{0, 2})) << results[0].text;
  for (const auto& result : results)
    EXPECT_NE(result.text.find("rank 2 called all_to_all_v(sends 49, 50, 50 x float32), which sends this one "
                               "49 elements; it expects 50"),
              std::string::npos)
        << result.text;
}

// Rank 1 of two does not expect what rank 0 sends in the last call. `right`: calls before it.
void disagree_on_lengths(Communicator& comm, int right) {
  const auto peer = static_cast<std::size_t>(1 - comm.rank());
  const std::vector<float> in(100'000);
  std::vector<float> out(100'000);
  std::vector<std::size_t> to(2), from(2);
  to[peer] = comm.rank() == 0 ? 90'000 : 10;
  from[peer] = comm.rank() == 0 ? 10 : 90'000;
  const auto call = [&] { comm.all_to_all_v(std::span(in), to, {}, std::span(out), from, {}); };
  for (int number = 0; number < right; ++number) call();
  if (comm.rank() == 1) from[peer] = 20;
  call();
  comm.barrier();
}

// Rank 0 has all that it expects, and may be in the barrier when rank 1 notices.
void expect_named(const Thrown& thrown) {
  EXPECT_TRUE(thrown.code == ErrorCode::mismatch || thrown.code == ErrorCode::aborted) << thrown.text;
  EXPECT_NE(thrown.text.find("all_to_all_v("), std::string::npos) << thrown.text;
}

// In a trial one may tell the other where its buffer is while that one sends through slots.
constexpr auto calls_before = {0, 10, 20, 22, 24, 25, 26, 27, 30};

TEST_P(Mismatches, OfLengthsBetweenTwoRanks) {
  for (const int right : calls_before)
    for (const auto& result :
         outcomes(2, over(GetParam(), 10s), [&](Communicator& comm) { disagree_on_lengths(comm, right); }))
      expect_named(result);
}

#ifndef __SANITIZE_THREAD__  // which sees one process
TEST(MismatchesOfProcesses, OfLengthsBetweenTwoRanks) {
  for (const int right : calls_before)
    run_processes(2, over("shm", 10s), [&](Communicator& comm) {
      expect_named(thrown_by([&] { disagree_on_lengths(comm, right); }));
    });
}
#endif

TEST(Options, ThatDifferAreNamedBeforeAnythingRuns) {
  Options other_order = over("shm"), other_algorithm = over("shm"), other_nodes = over("shm"),
          other_streams = over("shm");
  other_order.rank_order = true;
  other_algorithm.algorithm = "ring";
  other_nodes.node_size = 2;
  other_streams.tcp_streams = 2;
  for (const Options& odd : {over("tcp"), other_order, other_algorithm, other_nodes, other_streams}) {
    const UniqueId id = UniqueId::create("lo");
    bootstrap::test::on_threads(3, [&](Rank rank) {
      const auto thrown =
          thrown_by([&] { const Communicator comm(id, rank, 3, rank == 2 ? odd : over("shm")); });
      EXPECT_EQ(thrown.code, ErrorCode::mismatch) << thrown.text;
      EXPECT_EQ(thrown.ranks, (std::vector<Rank>{0, 2})) << thrown.text;
    });
  }
}

}  // namespace
}  // namespace tutti::test
