// What is computed of counts of more than 2^31 elements before anything is sent.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "communicator/check.hpp"
#include "communicator/exercise.hpp"
#include "communicator/large_counts.hpp"
#include "communicator/plan.hpp"
#include "communicator/ranks.hpp"

namespace tutti::test {
namespace {

using LargeExtent = std::pair<std::size_t, std::size_t>;  // offset and bytes
std::vector<LargeExtent> extents(const std::vector<execution::Shape::Extent>& of) {
  std::vector<LargeExtent> all;
  for (const auto& extent : of) all.emplace_back(extent.offset, extent.bytes);
  return all;
}

TEST(LargeShapes, HaveEveryByteOfEachOperation) {
  for (const std::size_t count : large_counts) {
    const std::size_t bytes = 4 * count;
    std::vector<LargeExtent> even, packed;
    std::size_t at = 0;
    for (std::size_t r = 0; r < large_ranks; ++r) {
      even.emplace_back(r * bytes, bytes);
      packed.emplace_back(at, bytes + (r << 33U));
      at += packed.back().second;
    }
    const auto shape = [&](Operation operation) {
      const LargeCall large(operation, count);
      return shape_of(large.call, 2, large_ranks);
    };
    for (const Operation operation : {Operation::all_reduce, Operation::reduce, Operation::broadcast}) {
      EXPECT_TRUE(shape(operation).divisible);
      EXPECT_EQ(shape(operation).total, bytes) << name(operation);
    }
    for (const Operation operation : {Operation::reduce_scatter, Operation::scatter, Operation::all_to_all})
      EXPECT_EQ(extents(shape(operation).input), even) << name(operation);
    for (const Operation operation : {Operation::all_gather, Operation::gather, Operation::all_to_all})
      EXPECT_EQ(extents(shape(operation).output), even) << name(operation);
    EXPECT_EQ(extents(shape(Operation::all_gather_v).output), packed);
    EXPECT_EQ(extents(shape(Operation::all_gather_v).input), (std::vector{LargeExtent{0, packed[2].second}}));
    EXPECT_EQ(extents(shape(Operation::reduce_scatter_v).input), packed);
    EXPECT_EQ(extents(shape(Operation::reduce_scatter_v).output),
              (std::vector{LargeExtent{0, packed[2].second}}));
    EXPECT_EQ(extents(shape(Operation::all_to_all_v).input), packed);
    EXPECT_EQ(extents(shape(Operation::all_to_all_v).output), packed);
  }
}

TEST(LargeCalls, AreCheckedToTheirLastByte) {
  for (const std::size_t count : large_counts) {
    const std::size_t bytes = 4 * count, all = large_ranks * bytes,
                      uneven = all + 6 * (std::size_t{4} << 31U), mine = bytes + 2 * (std::size_t{4} << 31U),
                      before = 2 * bytes + (std::size_t{4} << 31U);
    struct Row {
      Operation operation;
      std::size_t in, out;
      std::ptrdiff_t input_at;  // of in place, of rank 2
    };
    const auto at = [](std::size_t offset) { return static_cast<std::ptrdiff_t>(offset); };
    const Row rows[] = {
        {Operation::all_reduce, bytes, bytes, 0},
        {Operation::reduce, bytes, bytes, 0},
        {Operation::broadcast, bytes, bytes, 0},
        {Operation::reduce_scatter, all, bytes, -at(2 * bytes)},
        {Operation::scatter, all, bytes, -at(2 * bytes)},
        {Operation::all_gather, bytes, all, at(2 * bytes)},
        {Operation::gather, bytes, all, at(2 * bytes)},
        {Operation::all_to_all, all, all, 0},
        {Operation::all_gather_v, mine, uneven, at(before)},
        {Operation::reduce_scatter_v, uneven, mine, -at(before)},
        {Operation::all_to_all_v, uneven, uneven, 0},
        {Operation::send, bytes, 0, 0},
        {Operation::receive, 0, bytes, 0},
    };
    for (const Row& row : rows) {
      LargeCall large(row.operation, count, 2);
      SCOPED_TRACE(describe(large.call));
      const Sizes sizes = check(large.call, 2, large_ranks);
      EXPECT_EQ(sizes.in_bytes, row.in);
      EXPECT_EQ(sizes.out_bytes, row.out);
      EXPECT_FALSE(sizes.in_place);
      if (row.in == 0 || row.out == 0) continue;
      // Right behind each other they do not overlap, a byte less they do.
      large.call.out = large_in + row.in;
      EXPECT_FALSE(check(large.call, 2, large_ranks).in_place);
      large.call.out = large_in + row.in - 1;
      EXPECT_EQ(thrown_by([&] { check(large.call, 2, large_ranks); }).code, ErrorCode::invalid_argument);
      large.call.in = large_out + row.out;
      large.call.out = large_out;
      EXPECT_FALSE(check(large.call, 2, large_ranks).in_place);
      large.call.in = large_out + row.out - 1;
      EXPECT_EQ(thrown_by([&] { check(large.call, 2, large_ranks); }).code, ErrorCode::invalid_argument);
      if (row.operation == Operation::all_to_all_v) continue;
      large.call.in = large_out + row.input_at;
      EXPECT_TRUE(check(large.call, 2, large_ranks).in_place);
    }
  }
}

// By the low half of the count alone they would be the same.
TEST(LargeCalls, AreOthersThanShortOnes) {
  constexpr std::size_t more = std::size_t{1} << 32U;
  for (const Operation operation : data_operations()) {
    const LargeCall small(operation, 5), large(operation, 5 + more);
    SCOPED_TRACE(name(operation));
    EXPECT_GE(bytes_of(large.call, large_ranks), bytes_of(small.call, large_ranks) + 4 * more);
    if (has_counts(small.call)) {
      EXPECT_TRUE(same_counts(all_counts(small.call), small.call));
      EXPECT_FALSE(same_counts(all_counts(small.call), large.call));
      continue;
    }
    EXPECT_FALSE(same_but_counts(small.call, large.call));
    const PlanKey one = key_of(small.call, {}), other = key_of(large.call, {});
    EXPECT_FALSE(one == other);
    EXPECT_NE(hash_of(one), hash_of(other));
  }
}

}  // namespace
}  // namespace tutti::test
