// Slots or peers' memory: measured, decided alike by all ranks, without a difference in the results.
#include "communicator/path_trial.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "communicator/exercise.hpp"
#include "communicator/plan.hpp"
#include "communicator/ranks.hpp"
#include "gpu/flatten.hpp"
#include "topology/cache.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr PathTrial::Cadence usual = PathTrial::usual, of_long_calls = PathTrial::of_long_calls;

/// Nanoseconds that the calls of each rank take by a path; 0: nobody looked.
using Takes = std::map<Path, std::vector<int>>;

/// One trial of the paths in `takes`; the paths that ranks settle on.
std::vector<Path> settle_among(Path first, const Takes& takes, const PathTrial::Cadence& cadence = usual) {
  Paths paths;
  for (const auto& [path, times] : takes) paths.add(path);
  std::vector<PathTrial> ranks(takes.at(first).size(), PathTrial(paths, cadence));
  for (std::uint32_t call = 0; call < cadence.first_gap + cadence.calls(paths.size()); ++call)
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const auto turn = ranks[r].next(first);
      EXPECT_FALSE(turn.decides);
      const int time = takes.at(turn.path)[r];
      if (turn.timed && time != 0) ranks[r].record(turn.path, nanoseconds(time));
    }
  std::vector<PathTrial::Times> times;
  for (auto& rank : ranks) {
    EXPECT_TRUE(rank.next(first).decides);
    times.push_back(rank.times());
  }
  std::vector<Path> chosen;
  for (auto& rank : ranks) {
    rank.decide(times);
    chosen.push_back(rank.path(first));
    EXPECT_EQ(rank.next(first).path, rank.path(first));
  }
  return chosen;
}

std::vector<Path> settle(Path first, const std::vector<int>& slots, const std::vector<int>& direct,
                         const PathTrial::Cadence& cadence = usual) {
  return settle_among(first, {{Path::slots, slots}, {Path::direct, direct}}, cadence);
}

using testing::Each;

TEST(PathTrial, TakesTheFaster) {
  for (const Path first : {Path::slots, Path::direct}) {
    EXPECT_THAT(settle(first, {900, 910}, {700, 710}), Each(Path::direct));
    EXPECT_THAT(settle(first, {700, 710}, {900, 910}), Each(Path::slots));
  }
}

TEST(PathTrial, TakesTheFastestOfThree) {
  for (const Path first : all_paths)
    for (const Path fastest : all_paths) {
      Takes takes;
      for (const Path path : all_paths)
        takes[path] = path == fastest ? std::vector{600, 610} : std::vector{900, 910};
      for (const auto& cadence : {usual, of_long_calls})
        EXPECT_THAT(settle_among(first, takes, cadence), Each(fastest));
    }
}

TEST(PathTrial, WhatIsNotTriedIsNotTaken) {
  EXPECT_THAT(settle_among(Path::slots, {{Path::slots, {900}}, {Path::past_caches, {700}}}),
              Each(Path::past_caches));
  EXPECT_THAT(settle_among(Path::past_caches, {{Path::slots, {900}}, {Path::past_caches, {700}}}),
              Each(Path::past_caches));
}

TEST(PathTrial, LeavesWhatWasFarFromTheFastestOutOfEveryOtherTrial) {
  const auto& cadence = of_long_calls;
  PathTrial trial({Path::slots, Path::past_caches, Path::direct}, cadence);
  std::map<Path, int> takes{{Path::slots, 900}, {Path::past_caches, 1000}, {Path::direct, 2000}};
  const auto paths_of_next_trial = [&] {
    std::vector<Path> paths;
    PathTrial::Turn turn;
    while (!(turn = trial.next(Path::slots)).decides) {
      if (!turn.timed) continue;
      if (paths.empty() || paths.back() != turn.path) paths.push_back(turn.path);
      trial.record(turn.path, nanoseconds(takes[turn.path]));
    }
    trial.decide(std::vector{trial.times()});
    return paths;
  };
  const std::vector all{Path::slots, Path::past_caches, Path::direct}, near{Path::slots, Path::past_caches};
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(paths_of_next_trial(), all);
    EXPECT_EQ(paths_of_next_trial(), near);
    EXPECT_EQ(trial.decided_by()[static_cast<std::size_t>(Path::direct)], 2000U);
  }
  takes[Path::direct] = 300;
  EXPECT_EQ(paths_of_next_trial(), all);
  EXPECT_EQ(trial.path(Path::slots), Path::direct);
  const std::vector direct_first{Path::direct, Path::slots, Path::past_caches};
  EXPECT_EQ(paths_of_next_trial(), direct_first) << "a trial without rivals is left out";
}

TEST(PathTrial, StaysWhereTheDifferenceIsNoise) {
  EXPECT_THAT(settle(Path::slots, {1000}, {990}), Each(Path::slots));
  EXPECT_THAT(settle(Path::direct, {990}, {1000}), Each(Path::direct));
}

TEST(PathTrial, OfLongCallsTakesFewOfThem) {
  EXPECT_LE(of_long_calls.first_gap + of_long_calls.calls(3), 16U);
  EXPECT_THAT(settle(Path::slots, {900, 910}, {700, 710}, of_long_calls), Each(Path::direct));
  EXPECT_THAT(settle(Path::direct, {700, 710}, {900, 910}, of_long_calls), Each(Path::slots));
  EXPECT_THAT(settle(Path::slots, {1000}, {940}, of_long_calls), Each(Path::slots));
}

TEST(PathTrial, WhoWaitsDoesNotHideTheDifference) {
  EXPECT_THAT(settle(Path::slots, {9000, 500}, {8700, 200}), Each(Path::direct));  // rank 0 comes early
  EXPECT_THAT(settle(Path::slots, {100, 500}, {400, 400}), Each(Path::slots));     // the root runs ahead
}

// Its first calls find in the caches what those by the other path left there.
TEST(PathTrial, OfLongCallsAPathCountsOnceCachesHoldWhatItNeeds) {
  const Paths both{Path::slots, Path::direct};
  for (const Path present : {Path::slots, Path::direct}) {
    PathTrial trial(both, of_long_calls);
    Path last = present;
    int in_a_row = 0;
    PathTrial::Turn turn;
    while (!(turn = trial.next(present)).decides) {
      in_a_row = turn.path == last ? in_a_row + 1 : 1;
      last = turn.path;
      const int settled = turn.path == Path::slots ? 2000 : 1500;
      if (turn.timed) trial.record(turn.path, nanoseconds(in_a_row > 3 ? settled : 2 * settled));
    }
    trial.decide(std::vector{trial.times()});
    EXPECT_EQ(trial.path(present), Path::direct);
    EXPECT_EQ(trial.decided_by()[static_cast<std::size_t>(Path::direct)], 1500U);
  }
}

// Between two long calls so much can happen that only who waits for nobody tells.
TEST(PathTrial, OfLongCallsTheLastRankToComeCounts) {
  EXPECT_THAT(settle(Path::slots, {24'000, 700}, {900, 910}, of_long_calls), Each(Path::slots));
  EXPECT_THAT(settle(Path::direct, {24'000, 700}, {900, 910}, of_long_calls), Each(Path::slots));
}

// Ranks that share a processor are ahead in one call and wait in the next.
TEST(PathTrial, TwoCallsInARowTell) {
  PathTrial trial({Path::slots, Path::direct});
  const std::map<Path, std::vector<int>> takes{{Path::slots, {1500, 400, 1500, 9000}},
                                               {Path::direct, {1100, 1100, 1100, 1100}}};
  std::map<Path, std::size_t> timed;
  for (std::uint32_t call = 0; call < usual.first_gap + usual.calls(2); ++call) {
    const auto turn = trial.next(Path::direct);
    if (turn.timed) trial.record(turn.path, nanoseconds(takes.at(turn.path)[timed[turn.path]++]));
  }
  EXPECT_TRUE(trial.next(Path::direct).decides);
  trial.decide(std::vector{trial.times()});
  EXPECT_EQ(trial.path(Path::direct), Path::slots);
  EXPECT_EQ(trial.decided_by()[static_cast<std::size_t>(Path::slots)], 950U);
}

TEST(PathTrial, RanksThatTimedOnePathOnlyDoNotCount) {
  EXPECT_THAT(settle(Path::slots, {500, 0}, {400, 900}), Each(Path::direct));
}

TEST(PathTrial, StaysWhenNobodyTimedACall) {
  EXPECT_THAT(settle(Path::direct, {0, 0}, {0, 0}), Each(Path::direct));
  EXPECT_THAT(settle(Path::slots, {500, 0}, {0, 0}), Each(Path::slots));
}

TEST(PathTrial, IsRepeatedEverMoreRarely) {
  for (const auto& cadence : {usual, of_long_calls}) {
    PathTrial trial({Path::slots, Path::direct}, cadence);
    std::vector<std::uint32_t> decisions;
    for (std::uint32_t call = 0; call < 100'000; ++call)
      if (trial.next(Path::slots).decides) decisions.push_back(call);
    ASSERT_GT(decisions.size(), 10U);
    EXPECT_EQ(decisions[0], cadence.first_gap + cadence.calls(2));
    std::uint32_t gap = cadence.first_gap;
    for (std::size_t i = 1; i < decisions.size(); ++i) {
      gap = std::min(cadence.growth * gap, cadence.longest_gap);
      EXPECT_EQ(decisions[i] - decisions[i - 1], cadence.calls(2) + 1 + gap);
    }
  }
}

#ifndef __SANITIZE_THREAD__  // which sees one process, and here ranks are processes

constexpr std::uint32_t calls_with_a_trial = usual.first_gap + usual.calls(2) + 3;

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

/// As many calls as it takes to try both paths; all must give what the first one gave. float32 or bfloat16.
void expect_same_bits(Communicator& comm, const Call& call, std::byte* in, std::byte* out) {
  const std::size_t parts =
      call.operation == Operation::reduce_scatter ? static_cast<std::size_t>(comm.size()) : 1;
  const std::size_t element = size_of(call.type), bytes = call.count * element;
  std::mt19937 random(static_cast<unsigned>(comm.rank()));
  std::uniform_real_distribution<float> any(-1.0F, 1.0F);
  for (std::size_t i = 0; i < parts * call.count; ++i) {
    const float value = any(random);  // a bfloat16 is its upper half
    std::memcpy(in + i * element, reinterpret_cast<const std::byte*>(&value) + sizeof value - element,
                element);
  }
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

#ifdef __OPTIMIZE__
constexpr auto rank_counts = {3, 4, 5};
constexpr auto byte_counts = {20'000, 400'000, 1'500'000};
#else  // for a debugger, and for sanitizers, to which few ranks and short calls show what they look for
constexpr auto rank_counts = {3};
constexpr auto byte_counts = {20'000, 400'000};
#endif

void expect_same_bits_of_all_reductions(Communicator& comm, std::byte* in, std::byte* out) {
  for (const Operation operation : {Operation::all_reduce, Operation::reduce_scatter, Operation::reduce})
    for (const DataType type : {DataType::float32, DataType::bfloat16})
      for (const std::size_t bytes : byte_counts)
        for (const Reduction reduction :
             {Reduction(ReduceOp::sum), Reduction(ReduceOp::average), scaled_sum(0.3)})
          expect_same_bits(comm, reduction_call(operation, type, reduction, bytes / size_of(type), in, out),
                           in, out);
}

// A trial may not show in the results: what folds in another order than peers' memory is read has none.
TEST(PathTrial, ResultsAreTheSameBitForBitOnEitherPath) {
  for (const int ranks : rank_counts)
    run_processes(ranks, over("shm"), [](Communicator& comm) {
      std::vector<std::byte> in(8'000'000), out(2'000'000);
      expect_same_bits_of_all_reductions(comm, in.data(), out.data());
      const std::string why = comm.explain(reduction_call(Operation::all_reduce, DataType::float32,
                                                          ReduceOp::sum, 100'000, in.data(), out.data()));
      if (why.find("plain memory") == std::string::npos) GTEST_SKIP() << "no cross-memory attach here";
      EXPECT_NE(why.find("(measured: slots "), std::string::npos) << why;
      EXPECT_GT(comm.stats().bytes_direct, 0U) << "attach was not tried";
    });
}

TEST(PathTrial, LongReductionsOfTwoRanksAreTheSameBitForBit) {
  run_processes(2, over("shm"), [](Communicator& comm) {
    std::vector<std::byte> in(9'000'000), out(9'000'000);
    const Call shorter = reduction_call(Operation::all_reduce, DataType::float32, ReduceOp::sum, 100'000,
                                        in.data(), out.data());
    if (comm.explain(shorter).find("plain memory") == std::string::npos)
      GTEST_SKIP() << "no cross-memory attach here";
    for (const Operation operation : {Operation::all_reduce, Operation::reduce_scatter}) {
      const std::size_t count = in.size() / sizeof(float) / (operation == Operation::all_reduce ? 1 : 2);
      const Call call =
          reduction_call(operation, DataType::float32, ReduceOp::sum, count, in.data(), out.data());
      const auto before = comm.stats().bytes_direct;
      expect_same_bits(comm, call, in.data(), out.data());
      EXPECT_GT(comm.stats().bytes_direct, before) << "attach was not tried";
    }
  });
}

TEST(PathTrial, LongCallsAreTriedBothWaysSoon) {
  run_processes(3, over("shm"), [](Communicator& comm) {
    std::vector<float> in(3'000'000), out(9'000'000);
    const Call call{.operation = Operation::all_gather,
                    .type = DataType::float32,
                    .in = in.data(),
                    .out = out.data(),
                    .count = in.size()};
    if (comm.explain(call).find("plain memory") == std::string::npos)
      GTEST_SKIP() << "no cross-memory attach here";
    for (std::uint32_t number = 0; number < of_long_calls.first_gap + of_long_calls.calls(3) + 1; ++number) {
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
TEST(PathTrial, OfCallsOfOneRangeDoesNotDependOnWhichARankPlansFirst) {
  const std::size_t shorter = std::size_t{10} << 20, longer = std::size_t{20} << 20;  // bytes in all
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
      for (std::uint32_t number = 0; number < of_long_calls.first_gap + of_long_calls.calls(3) + 2;
           ++number) {
        issue(comm, call_of(bytes));
        EXPECT_EQ(out[bytes / sizeof(float) - 1], 1);
      }
  });
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
    const std::uint32_t calls = of_long_calls.first_gap + of_long_calls.calls(2) + 1;
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
          std::max(usual.first_gap + usual.calls(3), of_long_calls.first_gap + of_long_calls.calls(3)) + 1;
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
    const std::uint32_t calls = of_long_calls.first_gap + of_long_calls.calls(2) + usual.first_gap + 20;
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
      expect_same_bits_of_all_reductions(comm, reinterpret_cast<std::byte*>(in.data()),
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
    EXPECT_EQ(direct_bytes_of_calls(shorter, usual.first_gap), 0U);
    EXPECT_NE(why(shorter).find("at present: through slots of shared memory (not yet measured)"),
              std::string::npos)
        << why(shorter);
    EXPECT_GT(direct_bytes_of_calls(shorter, usual.calls(2)), 0U);
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
