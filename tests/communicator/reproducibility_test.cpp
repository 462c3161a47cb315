// Sums of floats that depend on the order of addition: bitwise equal on all ranks and from run to run; in
// rank order where that was asked for.
#include <gtest/gtest.h>

#include <cmath>

#include "collectives/algorithms.hpp"
#include "communicator/ranks.hpp"
#include "communicator/reference.hpp"
#include "kernels/reference.hpp"

namespace tutti::test {
namespace {

using Floats = std::vector<float>;

// Of very different sizes, so that almost every order of addition gives another sum.
Floats contribution(Rank rank, std::size_t count) {
  Floats data(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t hash = mix(static_cast<std::uint32_t>(rank) + 5, i);
    data[i] = std::ldexp(static_cast<float>(hash % 20011) - 10000.0F, static_cast<int>((hash >> 16) % 30));
  }
  return data;
}

Floats in_rank_order(int ranks, std::size_t count) {
  Floats sum = contribution(0, count);
  for (Rank r = 1; r < ranks; ++r) {
    const Floats next = contribution(r, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += next[i];
  }
  return sum;
}

Floats in_reverse_order(int ranks, std::size_t count) {
  Floats sum = contribution(ranks - 1, count);
  for (Rank r = ranks - 2; r >= 0; --r) {
    const Floats next = contribution(r, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += next[i];
  }
  return sum;
}

// What every rank got.
std::vector<Floats> all_reduced(int ranks, std::size_t count, const Options& options) {
  std::vector<Floats> results(static_cast<std::size_t>(ranks));
  run_local(
      ranks,
      [&](Communicator& comm) {
        auto& mine = results[static_cast<std::size_t>(comm.rank())] = contribution(comm.rank(), count);
        comm.all_reduce(std::span(mine));
      },
      options);
  return results;
}

class Reproducible : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Local, Reproducible,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(2, 3, 5, 8)),
                         transport_and_ranks);

TEST_P(Reproducible, OnAllRanksAndFromRunToRun) {
  const auto [transport, ranks] = GetParam();
  for (const std::size_t count : {1, 777, 60'000}) {
    const auto first = all_reduced(ranks, count, over(transport));
    for (const auto& one : first) EXPECT_EQ(one, first[0]);
    EXPECT_EQ(all_reduced(ranks, count, over(transport)), first);
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.one_sided || algorithm.collective != Collective::all_reduce) continue;
      Options options = over(transport);
      options.algorithm = algorithm.name;
      const auto forced = all_reduced(ranks, count, options);
      for (const auto& one : forced) EXPECT_EQ(one, forced[0]) << algorithm.name;
    }
  }
}

TEST_P(Reproducible, RankOrderIsThatOfASequentialSum) {
  const auto [transport, ranks] = GetParam();
  Options options = over(transport);
  options.rank_order = true;
  for (const std::size_t count : {1, 777, 60'000}) {
    const Floats expected = in_rank_order(ranks, count);
    if (ranks > 2 && count > 100) {
      ASSERT_NE(expected, in_reverse_order(ranks, count)) << "the inputs prove nothing";
    }
    for (const char* forced : {"", "all_pairs", "two_shot"}) {
      options.algorithm = forced;
      for (const auto& one : all_reduced(ranks, count, options)) EXPECT_EQ(one, expected) << forced;
    }
  }
}

TEST_P(Reproducible, RankOrderOfTheOtherReductions) {
  const auto [transport, ranks] = GetParam();
  Options options = over(transport);
  options.rank_order = true;
  run_local(
      ranks,
      [](Communicator& comm) {
        const auto n = static_cast<std::size_t>(comm.size()), me = static_cast<std::size_t>(comm.rank());
        for (const std::size_t count : {3, 20'000}) {
          const Floats in = contribution(comm.rank(), n * count),
                       expected = in_rank_order(comm.size(), n * count);
          Floats whole(in.size()), part(count);
          comm.reduce(std::span<const float>(in), std::span(whole), comm.size() - 1);
          if (comm.rank() == comm.size() - 1) {
            EXPECT_EQ(whole, expected);
          }
          comm.reduce_scatter(std::span<const float>(in), std::span(part));
          const auto from = expected.begin() + static_cast<std::ptrdiff_t>(me * count);
          EXPECT_EQ(part, Floats(from, from + static_cast<std::ptrdiff_t>(count)));
          std::fill(part.begin(), part.end(), 0.0F);
          const std::vector<std::size_t> counts(n, count);
          comm.reduce_scatter_v(std::span<const float>(in), std::span(part), counts);
          EXPECT_EQ(part, Floats(from, from + static_cast<std::ptrdiff_t>(count)));
        }
      },
      options);
}

using Bytes = std::vector<std::byte>;

// Of every type that rounds, what reduces it.
std::vector<std::pair<DataType, Reduction>> that_round() {
  std::vector<std::pair<DataType, Reduction>> all;
  for (const DataType type :
       {DataType::float16, DataType::bfloat16, DataType::fp8_e4m3, DataType::fp8_e5m2, DataType::float64})
    for (const Reduction& op : {Reduction(ReduceOp::sum), Reduction(ReduceOp::average), scaled_sum(0.3)})
      all.emplace_back(type, op);
  return all;
}

constexpr std::size_t many = 9'000;

// So also infinities and NaNs.
Bytes random_bits(Rank rank, DataType type) {
  Bytes data(many * size_of(type));
  for (std::uint32_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::byte>(mix(static_cast<std::uint32_t>(rank) + 5, i) >> 9);
  return data;
}

// What every rank got, one result after the other.
std::vector<Bytes> all_reduced_in_every_type(int ranks, const Options& options) {
  std::vector<Bytes> results(static_cast<std::size_t>(ranks));
  run_local(
      ranks,
      [&](Communicator& comm) {
        auto& mine = results[static_cast<std::size_t>(comm.rank())];
        for (const auto& [type, op] : that_round()) {
          Bytes data = random_bits(comm.rank(), type);
          comm.all_reduce(data.data(), data.data(), many, type, op);
          mine.insert(mine.end(), data.begin(), data.end());
        }
      },
      options);
  return results;
}

// The same in rank order without the library: contributions are scaled and rounded, then folded at once.
Bytes by_definition_in_every_type(int ranks) {
  Bytes results;
  for (const auto& [type, op] : that_round()) {
    std::vector<Bytes> inputs;
    std::vector<const std::byte*> sources;
    for (Rank rank = 0; rank < ranks; ++rank) {
      const Bytes input = random_bits(rank, type);
      inputs.push_back(
          reference_fold(type, op.op, {input.data()}, many, {.scaled_sources = 1, .factor = op.factor}));
    }
    for (const Bytes& input : inputs) sources.push_back(input.data());
    const Bytes result =
        reference_fold(type, op.op, sources, many, {.divisor = op.op == ReduceOp::average ? ranks : 1});
    results.insert(results.end(), result.begin(), result.end());
  }
  return results;
}

TEST_P(Reproducible, InEveryTypeThatRounds) {
  const auto [transport, ranks] = GetParam();
  const auto first = all_reduced_in_every_type(ranks, over(transport));
  for (const auto& one : first) EXPECT_EQ(one, first[0]);
  EXPECT_EQ(all_reduced_in_every_type(ranks, over(transport)), first);
  Options in_order = over(transport);
  in_order.rank_order = true;
  const std::vector<Bytes> expected(first.size(), by_definition_in_every_type(ranks));
  for (const char* forced : {"", "all_pairs", "two_shot"}) {
    in_order.algorithm = forced;
    EXPECT_EQ(all_reduced_in_every_type(ranks, in_order), expected) << forced;
  }
}

TEST(RankOrder, RefusesAlgorithmsWithAnotherOrder) {
  Options options = over("shm");
  options.rank_order = true;
  options.algorithm = "ring";
  EXPECT_EQ(thrown_by([&] {
              run_local(
                  3, [](Communicator&) {}, options);
            }).code,
            ErrorCode::invalid_argument);
  options.algorithm = "tree";  // of reduce and broadcast
  run_local(
      3,
      [](Communicator& comm) {
        float value = 1, sum = 0;
        EXPECT_EQ(thrown_by([&] { comm.reduce(&value, &sum, 1, DataType::float32, 0); }).code,
                  ErrorCode::invalid_argument);
        EXPECT_EQ(thrown_by([&] { comm.async().reduce(&value, &sum, 1, DataType::float32, 0).wait(); }).code,
                  ErrorCode::invalid_argument);
        comm.broadcast(std::span(&value, 1), 1);  // nothing was sent: it can be used
      },
      options);
}

// A schedule that rounds small floats more often than the library's own does not reduce them.
TEST(RankOrder, HoldsBesideASchedule) {
  const Schedule chain = parse_schedule(R"(
all_reduce "chain" ranks 3 chunks 1 scratch 1
rank 0
  lane 0
    scratch[0] = in[0] + from 1
    out[0], to 1, to 2 = scratch[0] + from 2 complete
rank 1
  lane 0
    to 0 = in[0]
    out[0] = from 0
rank 2
  lane 0
    to 0 = in[0]
    out[0] = from 0
)");
  constexpr std::size_t count = 5'000;
  const auto sums = [&](const Options& options, bool by_chain) {
    std::vector<std::uint16_t> result;
    run_local(
        3,
        [&](Communicator& comm) {
          if (by_chain) comm.use(chain);
          std::vector<std::uint16_t> data(count);  // of numbers from 1 to 16, and their negatives
          for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t hash = mix(static_cast<std::uint32_t>(comm.rank()) + 5, i);
            data[i] = static_cast<std::uint16_t>((hash & 0x83FFU) | (15 + (hash >> 20 & 3U)) << 10);
          }
          comm.all_reduce(data.data(), data.data(), count, DataType::float16);
          if (comm.rank() == 0) result = std::move(data);
        },
        options);
    return result;
  };
  Options in_order = over("shm");
  in_order.rank_order = true;
  const auto expected = sums(in_order, false);
  EXPECT_EQ(sums(in_order, true), expected);
  EXPECT_NE(sums(over("shm"), true), expected) << "the inputs prove nothing";
  run_local(
      3,
      [&](Communicator& comm) {
        comm.use(chain);
        const std::vector<float> in(4);
        std::vector<float> out(4);
        const auto by_chain = [&](DataType type, ReduceOp op) {
          const std::string text = comm.explain({.operation = Operation::all_reduce,
                                                 .type = type,
                                                 .reduction = op,
                                                 .in = in.data(),
                                                 .out = out.data(),
                                                 .count = 4});
          return text.find("algorithm chain: given by the user") != std::string::npos;
        };
        EXPECT_TRUE(by_chain(DataType::float32, ReduceOp::sum));
        EXPECT_TRUE(by_chain(DataType::float16, ReduceOp::max));
        for (const DataType type :
             {DataType::float16, DataType::bfloat16, DataType::fp8_e4m3, DataType::fp8_e5m2})
          EXPECT_FALSE(by_chain(type, ReduceOp::average)) << name(type);
      },
      in_order);
}

// The one-sided path of registered memory takes part in the promise.
TEST(RankOrder, HoldsInRegisteredMemory) {
  Options options = over("shm");
  options.rank_order = true;
  run_processes(4, options, [](Communicator& comm) {
    const std::size_t count = 50'000;
    const auto data = comm.allocate<float>(count);
    const Floats in = contribution(comm.rank(), count);
    std::copy(in.begin(), in.end(), data.begin());
    comm.all_reduce(data.span());
    EXPECT_GT(comm.stats().bytes_direct, 0U);
    EXPECT_EQ(Floats(data.begin(), data.end()), in_rank_order(comm.size(), count));
    comm.barrier();
  });
}

}  // namespace
}  // namespace tutti::test
