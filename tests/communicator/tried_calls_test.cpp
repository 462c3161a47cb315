// Calls that try several ways: whatever they take, results are the same.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "communicator/exercise.hpp"
#include "communicator/plan.hpp"
#include "communicator/ranks.hpp"
#include "gpu/flatten.hpp"
#include "topology/cache.hpp"
#include "transport/shm/path_trial.hpp"

namespace tutti::test {
namespace {

#ifndef __SANITIZE_THREAD__  // which sees one process, and here ranks are processes

constexpr std::uint32_t calls_with_a_trial = PathTrial::usual.first_gap + PathTrial::usual.calls(2) + 3;

Call reduction_call(Operation operation, DataType type, Reduction reduction, std::size_t count,
                    const std::byte* in, std::byte* out) {
  return {.operation = operation,
          .type = type,
          .reduction = reduction,
          .root = 0,
          .in = in,
          .out = out,
          .count = count};
}

/// float32 between -1 and 1, other ones on every rank, or bfloat16, their upper halves. A prime number
/// of them, again and again: to draw millions takes as long as the calls that they are for.
void fill(std::span<std::byte> in, DataType type, int rank) {
  constexpr std::size_t different = 65'537;
  std::mt19937 random(static_cast<unsigned>(rank));
  std::uniform_real_distribution<float> any(-1.0F, 1.0F);
  const std::size_t element = size_of(type), drawn = std::min(in.size(), different * element);
  for (std::size_t at = 0; at + element <= drawn; at += element) {
    const float value = any(random);
    std::memcpy(&in[at], reinterpret_cast<const std::byte*>(&value) + sizeof value - element, element);
  }
  for (std::size_t at = drawn; at < in.size(); at += drawn)
    std::memcpy(&in[at], in.data(), std::min(drawn, in.size() - at));
}

/// As many calls as it takes to try both paths; all must give what the first one gave. float32 or bfloat16.
void expect_same_bits(Communicator& comm, const Call& call, std::byte* out) {
  const std::size_t bytes = call.count * size_of(call.type);
  std::vector<std::byte> first;
  for (std::uint32_t number = 0; number < calls_with_a_trial; ++number) {
    std::memset(out, 0, bytes);  // what is read too early is not right by chance
    comm.barrier();              // nobody reads it from peers' memory any more
    issue(comm, call);
    if (number == 0) first.assign(out, out + bytes);
    ASSERT_EQ(std::memcmp(out, first.data(), bytes), 0)
        << name(call.operation) << " " << name(call.type) << " count " << call.count << " call " << number;
    comm.barrier();
  }
}

#ifdef __SANITIZE_ADDRESS__  // few ranks and short calls show what it looks for
constexpr auto rank_counts = {3};
constexpr auto byte_counts = {20'000, 400'000};
#else
constexpr auto rank_counts = {3, 4};
constexpr auto byte_counts = {20'000, 400'000, 1'500'000};
#endif

void expect_same_bits_of_all_reductions(Communicator& comm, std::span<std::byte> in, std::byte* out) {
  for (const DataType type : {DataType::float32, DataType::bfloat16}) {
    fill(in, type, comm.rank());
    for (const Operation operation : {Operation::all_reduce, Operation::reduce_scatter, Operation::reduce})
      for (const std::size_t bytes : byte_counts)
        for (const Reduction reduction :
             {Reduction(ReduceOp::sum), Reduction(ReduceOp::average), scaled_sum(0.3)})
          expect_same_bits(
              comm, reduction_call(operation, type, reduction, bytes / size_of(type), in.data(), out), out);
  }
}

// A trial may not show in the results: what folds in another order than peers' memory is read has none.
TEST(PathTrial, ResultsAreTheSameBitForBitOnEitherPath) {
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  for (const int ranks : rank_counts)
    run_processes(ranks, over("shm"), [](Communicator& comm) {
      std::vector<std::byte> in(8'000'000), out(2'000'000);
      expect_same_bits_of_all_reductions(comm, in, out.data());
      const std::string why = comm.explain(reduction_call(Operation::all_reduce, DataType::float32,
                                                          ReduceOp::sum, 100'000, in.data(), out.data()));
      EXPECT_NE(why.find("(measured: slots "), std::string::npos) << why;
      EXPECT_GT(comm.stats().bytes_direct, 0U) << "attach was not tried";
    });
}

TEST(PathTrial, LongReductionsOfTwoRanksAreTheSameBitForBit) {
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(2, over("shm"), [](Communicator& comm) {
    std::vector<std::byte> in(9'000'000), out(9'000'000);
    fill(in, DataType::float32, comm.rank());
    for (const Operation operation : {Operation::all_reduce, Operation::reduce_scatter}) {
      const std::size_t count = in.size() / sizeof(float) / (operation == Operation::all_reduce ? 1 : 2);
      const Call call =
          reduction_call(operation, DataType::float32, ReduceOp::sum, count, in.data(), out.data());
      const auto before = comm.stats().bytes_direct;
      expect_same_bits(comm, call, out.data());
      EXPECT_GT(comm.stats().bytes_direct, before) << "attach was not tried";
    }
  });
}

TEST(PathTrial, LongCallsAreTriedBothWaysSoon) {
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(3, over("shm"), [](Communicator& comm) {
    std::vector<float> in(3'000'000), out(9'000'000);
    const Call call{.operation = Operation::all_gather,
                    .type = DataType::float32,
                    .in = in.data(),
                    .out = out.data(),
                    .count = in.size()};
    for (std::uint32_t number = 0;
         number < PathTrial::of_long_calls.first_gap + PathTrial::of_long_calls.calls(3) + 1; ++number) {
      std::iota(in.begin(), in.end(), static_cast<float>(number + 7 * static_cast<unsigned>(comm.rank())));
      comm.all_gather(std::span<const float>(in), std::span(out));
      for (std::size_t r = 0; r < 3; ++r)
        for (const std::size_t i : {std::size_t{0}, in.size() / 2, in.size() - 1})
          EXPECT_EQ(out[r * in.size() + i], static_cast<float>(i) + static_cast<float>(number + 7 * r));
    }
    EXPECT_NE(comm.explain(call).find("(measured: slots "), std::string::npos) << comm.explain(call);
    EXPECT_GT(comm.stats().bytes_direct, 0U);
  });
}

// What one rank plans first of a range of sizes, here to explain it, may not decide when it tries what.
/// `shorter` and `longer`: bytes in all, of one range. Rank 0 plans the longer first, then all call the
/// shorter.
void expect_alike_whichever_is_planned_first(std::size_t shorter, std::size_t longer) {
  run_processes(4, over("shm", 5s), [&](Communicator& comm) {
    std::vector<float> in(longer / sizeof(float) / 4, 1), out(longer / sizeof(float));
    const auto call_of = [&](std::size_t bytes) {
      return Call{.operation = Operation::all_gather,
                  .type = DataType::float32,
                  .in = in.data(),
                  .out = out.data(),
                  .count = bytes / sizeof(float) / 4};
    };
    if (comm.rank() == 0) {
      EXPECT_FALSE(comm.explain(call_of(longer)).empty());
    }
    for (const std::size_t bytes : {shorter, longer})
      for (std::uint32_t number = 0; number < PathTrial::usual.first_gap + PathTrial::usual.calls(3) + 2;
           ++number) {
        issue(comm, call_of(bytes));
        ASSERT_EQ(out[bytes / sizeof(float) - 1], 1);
      }
  });
}

TEST(PathTrial, OfCallsOfOneRangeDoesNotDependOnWhichARankPlansFirst) {
  static_assert(PathTrial::usual.first_gap + PathTrial::usual.calls(3) >
                PathTrial::of_long_calls.first_gap + PathTrial::of_long_calls.calls(3));
  expect_alike_whichever_is_planned_first(std::size_t{10} << 20, std::size_t{15} << 20);
}

// Of four ranks those of 4 MiB and more take long.
TEST(PathTrial, NorWhereOnlySomeCallsOfTheRangeTakeLong) {
  expect_alike_whichever_is_planned_first(std::size_t{5} << 19, std::size_t{9} << 19);
}

/// A cache of 256 KiB, in the eyes of this process alone. False where that is not permitted.
bool see_a_small_cache() {
  const std::filesystem::path caches = "/sys/devices/system/cpu/cpu0/cache";
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", caches.c_str(), "tmpfs", 0, "size=64K") != 0)
    return false;
  std::filesystem::create_directory(caches / "index0");
  std::ofstream(caches / "index0" / "size") << "256K\n";
  return topology::last_cache_bytes() == std::size_t{256} << 10U;
}

// In a container, say, with another /sys, or none. Who tries another way waits for the others to tell how
// long it took.
TEST(PathTrial, RanksThatSeeOtherCachesTryTheSame) {
  Child probe([] { return see_a_small_cache() ? 0 : 77; });
  if (probe.wait() != 0) GTEST_SKIP() << "this process may not mount a file system of its own";
  const auto first = [](Rank rank) { EXPECT_TRUE(rank == 0 || see_a_small_cache()); };
  const auto body = [](Communicator& comm) {
    std::vector<float> data(std::size_t{1} << 18U, 1);
    for (std::uint32_t number = 0; number < PathTrial::usual.first_gap + PathTrial::usual.calls(3) + 2;
         ++number)
      comm.all_reduce(std::span(data), ReduceOp::max);
    EXPECT_EQ(data.back(), 1);
  };
  run_processes(2, over("shm", 20s), body, first);
}

TEST(PathTrial, LongResultsAreTriedPastTheCaches) {
  const std::size_t cache = topology::last_cache_bytes();
  run_processes(3, over("shm"), [&](Communicator& comm) {
    std::vector<float> in(cache / 3 / sizeof(float) + 13), out(in.size());
    const Call call = reduction_call(Operation::all_reduce, DataType::float32, ReduceOp::average, in.size(),
                                     reinterpret_cast<const std::byte*>(in.data()),
                                     reinterpret_cast<std::byte*>(out.data()));
    ASSERT_NE(comm.explain(call).find("through slots of shared memory (not yet measured)"),
              std::string::npos);
    const std::uint32_t calls = PathTrial::of_long_calls.first_gap + PathTrial::of_long_calls.calls(2) + 1;
    // What is given to a call lies one element further than what was given to the one before.
    std::vector<float> average(in.size() + calls), mine(average.size());
    for (std::size_t i = 0; i < average.size(); ++i) {
      average[i] = static_cast<float>(i % 50);
      mine[i] = average[i] + static_cast<float>(comm.rank() - 1);
    }
    for (std::uint32_t number = 0; number < calls; ++number) {
      std::copy_n(mine.data() + number, in.size(), in.data());
      std::fill(out.begin(), out.end(), 0.0F);
      issue(comm, call);
      ASSERT_EQ(std::memcmp(out.data(), average.data() + number, out.size() * sizeof(float)), 0)
          << "call " << number;
    }
    EXPECT_NE(comm.explain(call).find(" us, past the caches "), std::string::npos) << comm.explain(call);
  });
}

TEST(PathTrial, TheWayPastTheCachesStoresPastThem) {
  const std::size_t cache = topology::last_cache_bytes();
  gpu::NamedChannels channels;
  const Options options;
  const auto tuning = tuning::Tuning::defaults();
  const tuning::Scene scene{.transport = "shm", .ranks = 4};
  Planner planner({.size = 4,
                   .max_message = 64 << 10,
                   .last_cache = cache,
                   .channels = &channels,
                   .options = &options,
                   .tuning = tuning,
                   .scene = scene,
                   .choices = tuning->choices(scene)});
  const auto stores = [](const execution::Program& program) {
    bool past = false;
    for (const auto& lane : program.lanes)
      for (const execution::Part& part : lane)
        for (const execution::Instruction& i : part.instructions) past = past || i.streaming_sinks != 0;
    return past;
  };
  std::vector<std::byte> memory(1);  // nobody touches it
  for (const Operation operation :
       {Operation::all_reduce, Operation::reduce, Operation::reduce_scatter, Operation::all_gather,
        Operation::gather, Operation::scatter, Operation::all_to_all, Operation::broadcast}) {
    const Call call{.operation = operation, .in = memory.data(), .out = memory.data() + 1, .count = cache};
    const auto plan = planner.plan(call, {});
    ASSERT_TRUE(plan->past_caches) << name(operation);
    EXPECT_TRUE(stores(plan->past_caches->get(call))) << name(operation);
    EXPECT_FALSE(stores(plan->program)) << name(operation);
  }
}

// With a factor a call copies its input first, and others do not reach the copy: what it takes says nothing
// of calls without one, which may be tried directly.
TEST(PathTrial, OfCallsWithAFactorIsTheirOwn) {
  gpu::NamedChannels channels;
  Options options;
  options.rank_order = true;  // so that results are the same on all paths
  const auto tuning = tuning::Tuning::defaults();
  const tuning::Scene scene{.transport = "shm", .ranks = 2};
  const auto setting = [&](bool can_attach) {
    return Planner::Setting{.size = 2,
                            .can_attach = can_attach,
                            .max_message = 64 << 10,
                            .last_cache = topology::last_cache_bytes(),
                            .channels = &channels,
                            .options = &options,
                            .tuning = tuning,
                            .scene = scene,
                            .choices = tuning->choices(scene)};
  };
  Planner attaches(setting(true)), by_slots(setting(false));
  std::vector<std::byte> memory(1);  // nobody touches it
  const auto planned = [&](Planner& planner, Reduction reduction, std::size_t count) {
    return planner.plan(reduction_call(Operation::all_reduce, DataType::float32, reduction, count,
                                       memory.data(), memory.data() + 1),
                        {});
  };
  const std::size_t brief = 10'000;
  const auto plain = planned(attaches, ReduceOp::sum, brief),
             with_factor = planned(attaches, scaled_sum(2), brief);
  ASSERT_TRUE(plain->trial);
  EXPECT_TRUE(plain->attached);
  EXPECT_FALSE(with_factor->trial) << "it only has slots";
  EXPECT_FALSE(with_factor->attached);
  EXPECT_NE(with_factor->hash, plain->hash) << "ranks that differ would try different ways";
  // Both store results past the caches or not.
  const std::size_t streams = topology::last_cache_bytes() / sizeof(float);
  const auto trial = planned(by_slots, scaled_sum(2), streams)->trial;
  ASSERT_TRUE(trial);
  EXPECT_EQ(planned(by_slots, scaled_sum(3), streams)->trial, trial);
  EXPECT_NE(planned(by_slots, ReduceOp::sum, streams)->trial, trial);
}

// What is only moved: three ways, or two where there is no cross-memory attach.
TEST(PathTrial, LongMessagesAreTriedPastTheCaches) {
  const std::size_t cache = topology::last_cache_bytes();
  run_processes(2, over("shm"), [&](Communicator& comm) {
    const std::size_t count = cache / sizeof(std::uint32_t) / 4 * 2 + 14;
    std::vector<std::uint32_t> in(count), out(count);
    for (const Operation operation : {Operation::all_gather, Operation::all_to_all, Operation::broadcast}) {
      const bool whole = operation == Operation::broadcast;
      const Call call{.operation = operation,
                      .type = DataType::uint32,
                      .root = 1,
                      .in = in.data(),
                      .out = out.data(),
                      .count = whole ? count : count / 2};
      const std::uint32_t calls =
          std::max(PathTrial::usual.first_gap + PathTrial::usual.calls(3),
                   PathTrial::of_long_calls.first_gap + PathTrial::of_long_calls.calls(3)) +
          1;
      const std::size_t half = count / 2, mine = static_cast<std::size_t>(comm.rank()) * half;
      std::vector<std::uint32_t> pattern(count + 2 * calls);
      std::iota(pattern.begin(), pattern.end(), 1U);
      for (std::uint32_t number = 0; number < calls; ++number) {
        // Every rank's and call's data begins elsewhere.
        const auto data_of = [&](int rank) { return pattern.data() + 2 * number + rank; };
        std::copy_n(data_of(comm.rank()), count, in.data());
        std::fill(out.begin(), out.end(), 0U);
        issue(comm, call);
        for (const int part : {0, 1}) {
          const std::size_t begin = part == 0 ? 0 : half;
          const int from = whole ? 1 : part;
          const std::size_t at = whole ? begin : operation == Operation::all_gather ? 0 : mine;
          ASSERT_EQ(std::memcmp(out.data() + begin, data_of(from) + at, half * sizeof(std::uint32_t)), 0)
              << name(operation) << ", part " << part << ", call " << number;
        }
      }
      EXPECT_NE(comm.explain(call).find(" us, past the caches "), std::string::npos) << comm.explain(call);
    }
  });
}

// Two ranks both know what an all_to_all_v exchanges, so sizes are tried apart, though neither knows how long
// the block is that the other keeps.
TEST(PathTrial, TwoRanksTryTheSizesOfAllToAllVApart) {
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(2, over("shm"), [](Communicator& comm) {
    const auto me = static_cast<std::size_t>(comm.rank()), peer = 1 - me;
    const std::vector<std::uint8_t> in(1'000'000, static_cast<std::uint8_t>(me + 1));
    std::vector<std::uint8_t> out(1'000'000);
    std::vector<std::size_t> to(2), from(2);
    Call call{
        .operation = Operation::all_to_all_v, .type = DataType::uint8, .in = in.data(), .out = out.data()};
    call.in_counts = to, call.out_counts = from;
    const auto sized = [&](std::size_t of_rank_0, std::size_t of_rank_1) -> const Call& {
      to[peer] = me == 0 ? of_rank_0 : of_rank_1;
      from[peer] = me == 0 ? of_rank_1 : of_rank_0;
      to[me] = from[me] = me == 0 ? 10 : 300'000;
      return call;
    };
    EXPECT_NE(comm.explain(sized(300'000, 100)).find("plain memory"), std::string::npos);
    EXPECT_EQ(comm.explain(sized(100, 5000)).find("plain memory"), std::string::npos) << "too short";
    for (std::uint32_t number = 0; number < calls_with_a_trial; ++number) {
      std::ranges::fill(out, std::uint8_t{0});
      issue(comm, sized(number % 2 == 0 ? 300'000 : 100, number % 2 == 0 ? 100 : 300'000));
      const std::size_t kept = from[me], got = from[peer], at = me == 0 ? kept : 0;
      ASSERT_TRUE(std::all_of(out.begin() + static_cast<std::ptrdiff_t>(at),
                              out.begin() + static_cast<std::ptrdiff_t>(at + got),
                              [&](std::uint8_t byte) { return byte == peer + 1; }))
          << "call " << number;
    }
    EXPECT_NE(comm.explain(sized(100'000, 200'100)).find("(measured: slots "), std::string::npos)
        << "as many bytes, whoever sends them: " << comm.explain(call);
    EXPECT_NE(comm.explain(sized(50'000, 20'000)).find("(not yet measured)"), std::string::npos)
        << "others, never tried: " << comm.explain(call);
    EXPECT_GT(comm.stats().bytes_direct, 0U) << "attach was not tried";
  });
}

// Of all_to_all_v ranks know their own sizes only: each of them tries by itself how to store what it
// receives. Rank 0 of these has long blocks, and the others short ones.
TEST(PathTrial, LongResultsOfUnknownSizesAreTriedPastTheCachesByEachRank) {
  const std::size_t cache = topology::last_cache_bytes();
  run_processes(3, over("shm"), [&](Communicator& comm) {
    const std::size_t longest = cache / sizeof(std::uint32_t) / 2;
    const auto length = [&](int to) { return to == 0 ? longest : std::size_t{1000}; };
    std::vector<std::size_t> to_counts, to_places, from_counts(3, length(comm.rank())), from_places;
    for (const int rank : {0, 1, 2}) {
      to_places.push_back(rank == 0 ? 0 : to_places.back() + to_counts.back());
      to_counts.push_back(length(rank));
      from_places.push_back(static_cast<std::size_t>(rank) * length(comm.rank()));
    }
    std::vector<std::uint32_t> in(longest + 2000), out(3 * length(comm.rank()));
    const std::uint32_t calls = PathTrial::of_long_calls.first_gap + PathTrial::of_long_calls.calls(2) +
                                PathTrial::usual.first_gap + 20;
    std::vector<std::uint32_t> pattern(in.size() + 3 * calls);
    std::iota(pattern.begin(), pattern.end(), 1U);
    Call call{
        .operation = Operation::all_to_all_v, .type = DataType::uint32, .in = in.data(), .out = out.data()};
    call.in_counts = to_counts, call.in_displacements = to_places;
    call.out_counts = from_counts, call.out_displacements = from_places;
    for (std::uint32_t number = 0; number < calls; ++number) {
      const auto data_of = [&](int rank) { return pattern.data() + 3 * number + rank; };
      std::copy_n(data_of(comm.rank()), in.size(), in.data());
      std::fill(out.begin(), out.end(), 0U);
      issue(comm, call);
      for (const int from : {0, 1, 2}) {
        const std::size_t block = length(comm.rank());
        const std::size_t at = to_places[static_cast<std::size_t>(comm.rank())];
        ASSERT_EQ(std::memcmp(out.data() + static_cast<std::size_t>(from) * block, data_of(from) + at,
                              block * sizeof(std::uint32_t)),
                  0)
            << "from " << from << ", call " << number;
      }
    }
    const std::string text = comm.explain(call);
    EXPECT_EQ(text.find("this rank's results stored") != std::string::npos, comm.rank() == 0) << text;
    EXPECT_EQ(text.find(" us, past the caches ") != std::string::npos, comm.rank() == 0) << text;
  });
}

TEST(PathTrial, ResultsAreTheSameBitForBitInRegisteredMemory) {
  for (const int ranks : rank_counts)
    run_processes(ranks, over("shm"), [](Communicator& comm) {
      const auto in = comm.allocate<std::uint8_t>(8'000'000), out = comm.allocate<std::uint8_t>(2'000'000);
      expect_same_bits_of_all_reductions(comm, std::as_writable_bytes(in.span()),
                                         reinterpret_cast<std::byte*>(out.data()));
    });
}

// Short calls may lose by telling each other where buffers are, by how much depends on who shares processors.
TEST(PathTrial, ShortCallsInRegisteredMemoryAreTriedBothWays) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    const auto in = comm.allocate<float>(400'000), out = comm.allocate<float>(1'200'000);
    const auto direct_bytes_of_calls = [&](std::size_t count, std::uint32_t calls) {
      const auto before = comm.stats().bytes_direct;
      for (std::uint32_t call = 0; call < calls; ++call)
        comm.all_gather(std::span<const float>(in.span()).first(count), out.span().first(3 * count));
      comm.barrier();
      return comm.stats().bytes_direct - before;
    };
    const auto why = [&](std::size_t count) {
      return comm.explain({.operation = Operation::all_gather,
                           .type = DataType::float32,
                           .in = in.data(),
                           .out = out.data(),
                           .count = count});
    };
    constexpr std::size_t shorter = 2'000, longer = 100'000;
    EXPECT_EQ(direct_bytes_of_calls(shorter, PathTrial::usual.first_gap), 0U);
    EXPECT_NE(why(shorter).find("at present: through slots of shared memory (not yet measured)"),
              std::string::npos)
        << why(shorter);
    EXPECT_GT(direct_bytes_of_calls(shorter, PathTrial::usual.calls(2)), 0U);
    EXPECT_EQ(direct_bytes_of_calls(shorter, 0), 0U);
    direct_bytes_of_calls(shorter, 1);
    EXPECT_NE(why(shorter).find("(measured: slots "), std::string::npos) << why(shorter);
    for (std::uint32_t call = 0; call < calls_with_a_trial; ++call)
      EXPECT_GT(direct_bytes_of_calls(longer, 1), 0U) << call;
    EXPECT_EQ(why(longer).find("at present"), std::string::npos) << why(longer);
  });
}

#endif  // __SANITIZE_THREAD__

}  // namespace
}  // namespace tutti::test
