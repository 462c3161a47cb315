/// \file
/// The harness must notice wrong results, or no figure of it is worth anything.
#include "../../bench/peers/operation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace {

using bench::Call;
using bench::Operation;

/// All ranks' results, from their inputs and the definition of each operation.
std::vector<float> result(const Call& call, const std::vector<std::vector<float>>& in) {
  const auto rank = static_cast<std::size_t>(call.rank);
  const std::size_t block = call.block(), own = block * rank;
  std::vector<float> sum(call.total, 0), out;
  const auto append = [&](const std::vector<float>& from, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) out.push_back(from[i]);
  };
  switch (call.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::reduce_scatter:
      for (const auto& each : in)
        for (std::size_t i = 0; i < call.total; ++i) sum[i] += each[i];
      if (call.operation != Operation::reduce_scatter) return sum;
      append(sum, own, block);
      return out;
    case Operation::all_gather:
    case Operation::gather:
      for (const auto& each : in) append(each, 0, block);
      return out;
    case Operation::all_to_all:
      for (const auto& each : in) append(each, own, block);
      return out;
    case Operation::broadcast:
      return in[0];
    case Operation::scatter:
      append(in[0], own, block);
      return out;
    case Operation::barrier:
      return out;
    case Operation::ping_pong:
    case Operation::shift:
      return in[static_cast<std::size_t>(call.previous())];
    case Operation::all_gather_v:
      for (const auto& each : in) append(each, 0, each.size());
      return out;
    case Operation::reduce_scatter_v: {
      for (const auto& each : in)
        for (std::size_t i = 0; i < call.total; ++i) sum[i] += each[i];
      const bench::Blocks blocks = call.uneven(0);
      append(sum, blocks.displacements[rank], blocks.counts[rank]);
      return out;
    }
    case Operation::all_to_all_v:
      for (int from = 0; from < call.size; ++from) {
        const bench::Blocks sent = call.uneven(from);
        append(in[static_cast<std::size_t>(from)], sent.displacements[rank], sent.counts[rank]);
      }
      return out;
  }
  return out;
}

std::vector<std::vector<float>> inputs(Operation operation, int size, std::uint32_t generation) {
  std::vector<std::vector<float>> in;
  for (int rank = 0; rank < size; ++rank) {
    const Call call = bench::call_of(operation, 8000, rank, size);
    in.emplace_back(call.input());
    bench::fill(call, in.back().data(), generation);
  }
  return in;
}

class Check : public testing::TestWithParam<std::tuple<std::string_view, int>> {
 protected:
  /// Calls `body` with each rank whose output counts, and that output.
  template <class Body>
  void for_each_result(Body body) {
    const auto [operation_name, size] = GetParam();
    const Operation operation = bench::parse_operation(operation_name);
    const bool only_root = operation == Operation::reduce || operation == Operation::gather;
    const auto in = inputs(operation, size, 7);
    for (int rank = 0; rank < size; ++rank) {
      const Call call = bench::call_of(operation, 8000, rank, size);
      if (only_root && !call.is_root()) continue;
      if (operation == Operation::broadcast && call.is_root()) continue;
      body(call, result(call, in));
    }
  }
};

TEST_P(Check, AcceptsTheResult) {
  for_each_result([](const Call& call, const std::vector<float>& out) {
    EXPECT_TRUE(bench::is_right(call, out.data(), 7)) << "rank " << call.rank;
  });
}

TEST_P(Check, RefusesDataOfTheCallBefore) {
  for_each_result([](const Call& call, const std::vector<float>& out) {
    EXPECT_FALSE(bench::is_right(call, out.data(), 8)) << "rank " << call.rank;
  });
}

TEST_P(Check, RefusesEachSingleWrongElement) {
  for_each_result([](const Call& call, std::vector<float> out) {
    for (float& element : out) {
      element += 1;
      ASSERT_FALSE(bench::is_right(call, out.data(), 7))
          << "rank " << call.rank << ", element " << &element - out.data();
      element -= 1;
    }
  });
}

TEST_P(Check, RefusesPartsThatChangedPlaces) {
  for_each_result([](const Call& call, std::vector<float> out) {
    for (const std::size_t shift : {std::size_t{1}, std::size_t{8}, std::size_t{64}}) {
      std::vector<float> moved = out;
      std::rotate(moved.begin(), moved.begin() + static_cast<std::ptrdiff_t>(shift), moved.end());
      EXPECT_FALSE(bench::is_right(call, moved.data(), 7)) << "rank " << call.rank << ", moved by " << shift;
    }
  });
}

/// All but a barrier, which moves nothing, and ping_pong without a partner.
std::vector<std::tuple<std::string_view, int>> cases() {
  std::vector<std::tuple<std::string_view, int>> all;
  for (const auto operation : bench::operation_names)
    for (const int size : {2, 3, 4, 8})
      if (operation != "barrier" && (operation != "ping_pong" || size % 2 == 0))
        all.emplace_back(operation, size);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Operations, Check, testing::ValuesIn(cases()), [](const auto& values) {
  return std::string(std::get<0>(values.param)) + "_" + std::to_string(std::get<1>(values.param));
});

TEST(CallOf, CutsBlocksOfDifferentLengths) {
  for (const int size : {2, 3, 8}) {
    const Call call = bench::call_of(Operation::all_to_all_v, 8000, 0, size);
    for (int first = 0; first < size; ++first) {
      const bench::Blocks blocks = call.uneven(first);
      EXPECT_EQ(std::accumulate(blocks.counts.begin(), blocks.counts.end(), std::size_t{0}), call.total);
      EXPECT_NE(blocks.counts[0], blocks.counts[1]);
      for (int to = 0; to < size; ++to)  // what i sends to j is as long as what j sends to i
        EXPECT_EQ(blocks.counts[static_cast<std::size_t>(to)],
                  call.uneven(to).counts[static_cast<std::size_t>(first)]);
    }
  }
}

TEST(CallOf, RefusesPingPongWithoutAPartner) {
  EXPECT_THROW(bench::call_of(Operation::ping_pong, 8, 0, 3), std::invalid_argument);
  EXPECT_EQ(bench::call_of(Operation::ping_pong, 8, 2, 4).next(), 3);
}

TEST(CallOf, RoundsUpToOneElementARankWhereBlocksMove) {
  EXPECT_EQ(bench::call_of(Operation::all_reduce, 8, 0, 4).total, 2U);
  EXPECT_EQ(bench::call_of(Operation::all_gather, 8, 0, 4).total, 4U);
  EXPECT_EQ(bench::call_of(Operation::all_to_all, 9, 0, 2).total, 4U);
  EXPECT_EQ(bench::call_of(Operation::reduce_scatter, 1 << 20, 0, 3).total % 3, 0U);
}

// Of a library whose counts are ints, 2^32 elements would be none.
TEST(CallOf, CountsWhatALibraryWouldHaveToAndRefusesWhatNoIntHolds) {
  constexpr std::size_t bytes = std::size_t{1} << 34U, most = 2147483647;
  EXPECT_EQ(bench::int_of(most), 2147483647);
  EXPECT_THROW(static_cast<void>(bench::int_of(most + 1)), std::invalid_argument);
  EXPECT_EQ(bench::call_of(Operation::all_gather, bytes, 0, 8).count(), bytes / sizeof(float) / 8);
  EXPECT_EQ(bench::call_of(Operation::broadcast, bytes, 0, 8).count(), bytes / sizeof(float));
  EXPECT_EQ(bench::call_of(Operation::barrier, bytes, 0, 8).count(), 0U);
}

}  // namespace
