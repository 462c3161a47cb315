/// \file
/// The harness must notice wrong results, or no figure of it is worth anything.
#include "../../bench/peers/operation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace {

using bench::Call;
using bench::Operation;

/// All ranks' results, from their inputs and the definition of each operation.
std::vector<float> result(const Call& call, const std::vector<std::vector<float>>& in) {
  const std::size_t block = call.block(), own = block * static_cast<std::size_t>(call.rank);
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
  }
  return out;
}

std::vector<std::vector<float>> inputs(Operation operation, int size, std::uint32_t generation) {
  std::vector<std::vector<float>> in;
  for (int rank = 0; rank < size; ++rank) {
    const Call call = bench::call_of(operation, 4000, rank, size);
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
      const Call call = bench::call_of(operation, 4000, rank, size);
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

INSTANTIATE_TEST_SUITE_P(Operations, Check,
                         testing::Combine(testing::ValuesIn(bench::operation_names),
                                          testing::Values(2, 3, 4, 8)),
                         [](const auto& values) {
                           return std::string(std::get<0>(values.param)) + "_" +
                                  std::to_string(std::get<1>(values.param));
                         });

TEST(CallOf, RoundsUpToOneElementARankWhereBlocksMove) {
  EXPECT_EQ(bench::call_of(Operation::all_reduce, 8, 0, 4).total, 2U);
  EXPECT_EQ(bench::call_of(Operation::all_gather, 8, 0, 4).total, 4U);
  EXPECT_EQ(bench::call_of(Operation::all_to_all, 9, 0, 2).total, 4U);
  EXPECT_EQ(bench::call_of(Operation::reduce_scatter, 1 << 20, 0, 3).total % 3, 0U);
}

}  // namespace
