// The inputs of tutti-perf's checks: exact in every type and order, and different wherever they must be.
#include "perf/pattern.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "perf/reduction.hpp"

namespace tutti::perf {
namespace {

constexpr std::size_t elements = 1500;  // more than a period

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Calls `f(T, arithmetic)` with the C++ type and the type in which a single step is computed.
template <class F>
void with_type(DataType type, F f) {
  switch (type) {
    case DataType::int8:
      return f(std::int8_t{}, std::int8_t{});
    case DataType::uint8:
      return f(std::uint8_t{}, std::uint8_t{});
    case DataType::int32:
      return f(std::int32_t{}, std::int32_t{});
    case DataType::uint32:
      return f(std::uint32_t{}, std::uint32_t{});
    case DataType::int64:
      return f(std::int64_t{}, std::int64_t{});
    case DataType::uint64:
      return f(std::uint64_t{}, std::uint64_t{});
    case DataType::float16:
      return f(float16{}, float{});
    case DataType::bfloat16:
      return f(bfloat16{}, float{});
    case DataType::fp8_e4m3:
      return f(fp8_e4m3{}, float{});
    case DataType::fp8_e5m2:
      return f(fp8_e5m2{}, float{});
    case DataType::float32:
      return f(float{}, float{});
    case DataType::float64:
      return f(double{}, double{});
  }
}

template <class T, class A>
A decode(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return value;
  else
    return to_float(value);
}
float16 round(float16, float value) { return to_float16(value); }
bfloat16 round(bfloat16, float value) { return to_bfloat16(value); }
fp8_e4m3 round(fp8_e4m3, float value) { return to_fp8_e4m3(value); }
fp8_e5m2 round(fp8_e5m2, float value) { return to_fp8_e5m2(value); }
template <class T>
T round(T, T value) {
  return value;
}

template <class A>
A step(ReduceOp op, A a, A b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return static_cast<A>(a + b);
    case ReduceOp::product:
      return static_cast<A>(a * b);
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
  }
  return a;
}

// Folds step by step with a rounding to the type after each, in several orders: nothing may be lost on the
// way.
void expect_exact(DataType type, Reduction reduction, int ranks) {
  const Pattern pattern(type, reduction, ranks, 7);
  const std::size_t width = size_of(type);
  const std::vector<Part> expected{{0, elements, reduced, 3}};
  std::vector<std::vector<std::byte>> inputs;
  for (Rank rank = 0; rank < ranks; ++rank) {
    inputs.emplace_back(elements * width);
    pattern.fill(inputs.back().data(), std::vector<Part>{{0, elements, rank, 3}});
  }
  with_type(type, [&]<class T, class A>(T, A) {
    for (const int first : {0, 1 % ranks, ranks / 2, ranks - 1}) {
      std::vector<std::byte> result(elements * width);
      for (std::size_t i = 0; i < elements; ++i) {
        const auto value = [&](int turn) {
          const auto rank = static_cast<std::size_t>((first + turn) % ranks);
          const A raw = decode<T, A>(load<T>(inputs[rank].data() + i * width));
          return decode<T, A>(round(T{}, static_cast<A>(raw * static_cast<A>(reduction.factor))));
        };
        A sum = value(0);
        for (int turn = 1; turn < ranks; ++turn)
          sum = decode<T, A>(round(T{}, step(reduction.op, sum, value(turn))));
        if (reduction.op == ReduceOp::average) sum = static_cast<A>(sum / static_cast<A>(ranks));
        const T rounded = round(T{}, sum);
        std::memcpy(result.data() + i * width, &rounded, width);
      }
      ASSERT_EQ(pattern.count_wrong(result.data(), expected), 0U) << "beginning with rank " << first;
    }
  });
}

class Exactness : public testing::TestWithParam<DataType> {};

TEST_P(Exactness, HoldsInEveryOrder) {
  for (const NamedReduction& named : parse_reductions("all"))
    for (const int ranks : {1, 2, 3, 5, 8, 17, 40}) {
      SCOPED_TRACE(named.name + ", " + std::to_string(ranks) + " ranks");
      expect_exact(GetParam(), named.reduction, ranks);
    }
}

INSTANTIATE_TEST_SUITE_P(Perf, Exactness, testing::ValuesIn(parse_types("all")),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(Pattern, ContributionsOfReductionsDiffer) {
  const Pattern pattern(DataType::float32, ReduceOp::sum, 4, 1);
  std::vector<std::byte> input(elements * 4);
  pattern.fill(input.data(), std::vector<Part>{{0, elements, 0, 0}});
  EXPECT_EQ(pattern.count_wrong(input.data(), std::vector<Part>{{0, elements, 0, 0}}), 0U);
  EXPECT_GT(pattern.count_wrong(input.data(), std::vector<Part>{{0, elements, 1, 0}}), elements / 2)
      << "another rank";
  EXPECT_GT(pattern.count_wrong(input.data(), std::vector<Part>{{0, elements, 0, 1}}), elements / 2)
      << "another block";
  EXPECT_GT(pattern.count_wrong(input.data(), std::vector<Part>{{0, elements, reduced, 0}}), elements / 2);
  const Pattern reseeded(DataType::float32, ReduceOp::sum, 4, 2);
  EXPECT_GT(reseeded.count_wrong(input.data(), std::vector<Part>{{0, elements, 0, 0}}), elements / 2)
      << "another seed";
}

// Of forty, eight may contribute to one element, in one type.
TEST(Pattern, EveryRankContributesToEveryElementWithSomeSeed) {
  constexpr int ranks = 40;
  constexpr std::uint64_t seeds = 400;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const auto contributes = [&](std::uint64_t seed) {
      std::byte value{};
      const Pattern pattern(DataType::fp8_e5m2, ReduceOp::sum, ranks, seed);
      pattern.fill(&value, std::vector<Part>{{0, 1, rank, 0}});
      return value != std::byte{};
    };
    std::uint64_t seed = 1;
    while (seed <= seeds && !contributes(seed)) ++seed;
    EXPECT_LE(seed, seeds) << "rank " << rank;
  }
}

TEST(Pattern, FindsEveryWrongElementOnce) {
  for (const DataType type : parse_types("all")) {
    const std::size_t width = size_of(type);
    const Pattern pattern(type, std::nullopt, 3, 1);
    const std::vector<Part> parts{{0, 10, 0, 0}, {10, elements - 10, 2, 1}};
    std::vector<std::byte> moved(elements * width);
    pattern.fill(moved.data(), parts);
    EXPECT_EQ(pattern.count_wrong(moved.data(), parts), 0U);
    for (const std::size_t element :
         {std::size_t{0}, std::size_t{9}, std::size_t{10}, std::size_t{1040}, elements - 1})
      moved[element * width + width - 1] ^= std::byte{1};
    EXPECT_EQ(pattern.count_wrong(moved.data(), parts), 5U) << name(type);
  }
}

TEST(Pattern, WritesNothingOutsideItsParts) {
  std::vector<std::byte> buffer(100, std::byte{0x5a});
  Pattern(DataType::uint8, std::nullopt, 2, 1)
      .fill(buffer.data(), std::vector<Part>{{10, 20, 0, 0}, {40, 0, 1, 0}});
  const auto untouched = [](std::byte value) { return value == std::byte{0x5a}; };
  EXPECT_TRUE(std::all_of(buffer.begin(), buffer.begin() + 10, untouched));
  EXPECT_TRUE(std::all_of(buffer.begin() + 30, buffer.end(), untouched));
}

}  // namespace
}  // namespace tutti::perf
