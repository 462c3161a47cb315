// The rules that a user can rely on, spelt out in values: NaN, zeros, wrapping, truncation, saturation.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/fixture.hpp"
#include "kernels/reference.hpp"

namespace tutti::test {
namespace {

template <class T>
std::vector<T> fold_of(DataType type, ReduceOp op, const std::vector<std::vector<T>>& inputs,
                       const kernels::FoldModifiers& modifiers = {}) {
  std::vector<T> result(inputs.at(0).size());
  std::vector<const std::byte*> sources;
  sources.reserve(inputs.size());
  for (const auto& input : inputs) sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
  const std::array<std::byte*, 1> sinks{reinterpret_cast<std::byte*>(result.data())};
  kernels::fold_for(type, op)(sinks, sources, result.size(), modifiers);
  return result;
}

class RulesTest : public testing::TestWithParam<std::int64_t> {
 protected:
  WithInstructionSet chosen{GetParam()};
};

TEST_P(RulesTest, ReportsTheInstructionSet) {
  EXPECT_STREQ(kernels::instruction_set(), hwy::TargetName(GetParam()));
}

TEST_P(RulesTest, IntegersWrap) {
  EXPECT_EQ(fold_of<std::int32_t>(DataType::int32, ReduceOp::sum, {{INT32_MAX, INT32_MIN}, {1, -1}}),
            (std::vector<std::int32_t>{INT32_MIN, INT32_MAX}));
  EXPECT_EQ(
      fold_of<std::int64_t>(DataType::int64, ReduceOp::product, {{INT64_MAX, INT64_MIN, -3}, {2, -1, 5}}),
      (std::vector<std::int64_t>{-2, INT64_MIN, -15}));
  EXPECT_EQ(fold_of<std::uint8_t>(DataType::uint8, ReduceOp::product, {{255, 16, 3}, {255, 16, 5}}),
            (std::vector<std::uint8_t>{1, 0, 15}));
  EXPECT_EQ(fold_of<std::int8_t>(DataType::int8, ReduceOp::product, {{-128, -1, 100}, {-1, -1, 3}}),
            (std::vector<std::int8_t>{-128, 1, 44}));
}

TEST_P(RulesTest, IntegersDivideTowardZero) {
  EXPECT_EQ(fold_of<std::int32_t>(DataType::int32, ReduceOp::average, {{7, -7, INT32_MIN}, {0, 0, 0}},
                                  {.divisor = 2}),
            (std::vector<std::int32_t>{3, -3, INT32_MIN / 2}));
  EXPECT_EQ(fold_of<std::uint64_t>(DataType::uint64, ReduceOp::average, {{UINT64_MAX}}, {.divisor = 2}),
            (std::vector<std::uint64_t>{UINT64_MAX / 2}));
  EXPECT_EQ(fold_of<std::int8_t>(DataType::int8, ReduceOp::average, {{-128, 127}}, {.divisor = 200}),
            (std::vector<std::int8_t>{0, 0}));
}

TEST_P(RulesTest, IntegersScaledByAWholeFactorWrap) {
  const kernels::FoldModifiers negated{.scaled_sources = 1, .factor = -1.0};
  EXPECT_EQ(fold_of<std::uint8_t>(DataType::uint8, ReduceOp::sum, {{9}, {1}}, negated),
            (std::vector<std::uint8_t>{248}));
  const kernels::FoldModifiers triple{.scaled_sources = 1, .factor = 3.0};
  EXPECT_EQ(fold_of<std::int8_t>(DataType::int8, ReduceOp::sum, {{100, -100, 5}}, triple),
            (std::vector<std::int8_t>{44, -44, 15}));
  constexpr std::int64_t odd = (std::int64_t{1} << 53) + 1;  // no float64
  EXPECT_EQ(fold_of<std::int64_t>(DataType::int64, ReduceOp::sum, {{odd, INT64_MIN}}, triple),
            (std::vector<std::int64_t>{3 * odd, INT64_MIN}));
  EXPECT_EQ(fold_of<std::uint64_t>(DataType::uint64, ReduceOp::sum, {{UINT64_MAX}}, triple),
            (std::vector<std::uint64_t>{UINT64_MAX - 2}));
}

TEST_P(RulesTest, IntegersScaledByAFractionTruncateAndSaturate) {
  const kernels::FoldModifiers triple{.scaled_sources = 1, .factor = 2.75};
  EXPECT_EQ(fold_of<std::int32_t>(DataType::int32, ReduceOp::sum, {{3, -3, INT32_MAX, INT32_MIN}}, triple),
            (std::vector<std::int32_t>{8, -8, INT32_MAX, INT32_MIN}));
  EXPECT_EQ(fold_of<std::int64_t>(DataType::int64, ReduceOp::sum, {{INT64_MAX, INT64_MIN, 4}}, triple),
            (std::vector<std::int64_t>{INT64_MAX, INT64_MIN, 11}));
  const kernels::FoldModifiers negated{.scaled_sources = 1, .factor = -1.5};
  EXPECT_EQ(fold_of<std::uint8_t>(DataType::uint8, ReduceOp::sum, {{9}, {1}}, negated),
            (std::vector<std::uint8_t>{1}));
  const kernels::FoldModifiers undefined{.scaled_sources = 1, .factor = std::nan("")};
  EXPECT_EQ(fold_of<std::int32_t>(DataType::int32, ReduceOp::sum, {{9}, {1}}, undefined),
            (std::vector<std::int32_t>{1}));
}

TEST_P(RulesTest, ExtremaPropagateNanAndOrderZeros) {
  const float nan = std::bit_cast<float>(0xFFC01234U);
  const std::vector<float> a{nan, 1, -0.0F, 0.0F, nan, -INFINITY};
  const std::vector<float> b{1, nan, 0.0F, -0.0F, INFINITY, 3};
  const auto bits = [](const std::vector<float>& values) {
    std::vector<std::uint32_t> result;
    result.reserve(values.size());
    for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
    return result;
  };
  constexpr std::uint32_t quiet = 0x7FC00000U;
  const std::vector<std::uint32_t> least{quiet, quiet, 0x80000000U, 0x80000000U, quiet, 0xFF800000U};
  const std::vector<std::uint32_t> greatest{quiet, quiet, 0, 0, quiet, 0x40400000U};
  EXPECT_EQ(bits(fold_of<float>(DataType::float32, ReduceOp::min, {a, b})), least);
  EXPECT_EQ(bits(fold_of<float>(DataType::float32, ReduceOp::min, {b, a})), least);
  EXPECT_EQ(bits(fold_of<float>(DataType::float32, ReduceOp::max, {a, b})), greatest);
  EXPECT_EQ(bits(fold_of<float>(DataType::float32, ReduceOp::max, {b, a})), greatest);
}

TEST_P(RulesTest, OneSourceIsCopiedBitByBit) {
  const std::vector<std::uint32_t> signalling{0x7F812345U, 0xFFFFFFFFU, 0x00000001U};
  EXPECT_EQ(fold_of<std::uint32_t>(DataType::float32, ReduceOp::sum, {signalling}), signalling);
}

TEST_P(RulesTest, SmallFloatsRoundOnce) {
  // 1 + 3 x 2^-11: each addition alone would round back to 1 in float16.
  const std::uint16_t one = to_float16(1).bits;
  const std::uint16_t tiny = to_float16(0x1p-11F).bits;
  EXPECT_EQ(fold_of<std::uint16_t>(DataType::float16, ReduceOp::sum, {{one}, {tiny}, {tiny}, {tiny}}),
            (std::vector<std::uint16_t>{to_float16(1 + 0x1p-9F).bits}));
  EXPECT_EQ(fold_of<std::uint8_t>(DataType::fp8_e4m3, ReduceOp::sum, {{0x7E, 0xFE}, {0x7E, 0xFE}}),
            (std::vector<std::uint8_t>{0x7E, 0xFE}))
      << "e4m3 saturates";
  EXPECT_EQ(fold_of<std::uint8_t>(DataType::fp8_e5m2, ReduceOp::sum, {{0x7B, 0xFB}, {0x7B, 0xFB}}),
            (std::vector<std::uint8_t>{0x7C, 0xFC}))
      << "e5m2 overflows to infinity";
}

TEST_P(RulesTest, AllPairsOfEightBitFloats) {
  for (const DataType type : {DataType::fp8_e4m3, DataType::fp8_e5m2}) {
    std::vector<std::uint8_t> a;
    std::vector<std::uint8_t> b;
    for (int pair = 0; pair < 65536; ++pair) {
      a.push_back(static_cast<std::uint8_t>(pair & 255));
      b.push_back(static_cast<std::uint8_t>(pair >> 8));
    }
    const std::vector<const std::byte*> sources{reinterpret_cast<const std::byte*>(a.data()),
                                                reinterpret_cast<const std::byte*>(b.data())};
    for (const ReduceOp op : all_ops) {
      const auto folded = fold_of<std::uint8_t>(type, op, {a, b});
      EXPECT_EQ(bytes_of(folded), reference_fold(type, op, sources, a.size(), {}))
          << name(type) << " " << name(op);
    }
  }
}

// Multiplying by 1 decodes and encodes: the vectors' conversions, on every code.
TEST_P(RulesTest, AllSixteenBitCodesThroughTheVectors) {
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    std::vector<std::uint16_t> codes;
    for (std::uint32_t code = 0; code < 65536; ++code) codes.push_back(static_cast<std::uint16_t>(code));
    const std::uint16_t one = type == DataType::float16 ? to_float16(1).bits : to_bfloat16(1).bits;
    const auto folded = fold_of<std::uint16_t>(type, ReduceOp::product,
                                               {codes, std::vector<std::uint16_t>(codes.size(), one)});
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const bool nan = std::isnan(value_of(codes[i], layout_of(type)));
      ASSERT_EQ(folded[i], nan ? code_of(std::nan(""), layout_of(type)) : codes[i])
          << name(type) << " code " << i;
    }
  }
}

TEST_P(RulesTest, CopiesToEverySink) {
  std::mt19937_64 random{7};
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 4096, 100000}) {
    const auto source = random_elements(DataType::uint8, random, bytes);
    for (const std::uint64_t streaming : {0U, 1U, 2U, 7U}) {
      std::vector<Buffer> sinks;
      std::vector<std::byte*> pointers;
      pointers.reserve(3);
      for (const std::size_t skew : {1, 0, 17}) sinks.emplace_back(bytes, skew);
      for (Buffer& sink : sinks) pointers.push_back(sink.data());
      for (std::size_t count = 1; count <= sinks.size(); ++count) {
        for (const bool block_copies : {false, true}) {
          kernels::copy(std::span(pointers).first(count), source.data(), bytes,
                        {.streaming_sinks = streaming, .shared_sinks = ~streaming}, block_copies);
          for (std::size_t k = 0; k < count; ++k) {
            EXPECT_TRUE(sinks[k].holds(source)) << bytes << " bytes, sink " << k << " of " << count;
            std::fill_n(pointers[k], bytes, std::byte{});
          }
        }
      }
      for (const Buffer& sink : sinks) EXPECT_TRUE(sink.guards_intact());
    }
  }
}

// Around where `rep movsb` would wait for itself, vectors copy.
TEST_P(RulesTest, CopiesBlocksThatBeginAnywhereInTheirPages) {
  constexpr std::size_t page = 4096;
  std::mt19937_64 random{5};
  const auto bytes = random_elements(DataType::uint8, random, std::size_t{70} << 10);
  std::vector<std::byte> from(bytes.size() + 2 * page);
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{1023}, std::size_t{1024}, std::size_t{1025}, page + 3, bytes.size()})
    for (const std::size_t ahead : {0, 1, 16, 31, 32, 4080}) {
      auto* const source = from.data() + page - reinterpret_cast<std::uintptr_t>(from.data()) % page;
      Buffer sink(size + page, (reinterpret_cast<std::uintptr_t>(source) + ahead) % 64);
      std::copy_n(bytes.data(), size, source);
      std::byte* const to = sink.data() + (reinterpret_cast<std::uintptr_t>(source) + ahead -
                                           reinterpret_cast<std::uintptr_t>(sink.data())) %
                                              page;
      std::vector<std::byte> expected(sink.data(), sink.data() + size + page);
      std::copy_n(bytes.data(), size, expected.begin() + (to - sink.data()));
      kernels::copy_block(to, source, size);
      EXPECT_TRUE(sink.holds(expected)) << size << " bytes, " << ahead << " ahead";
      EXPECT_TRUE(sink.guards_intact());
    }
}

// Also where a sink is one of the sources.
TEST_P(RulesTest, FoldsToEverySinkAlikeWithAndWithoutBlockCopies) {
  std::mt19937_64 random{11};
  for (const DataType type : {DataType::float32, DataType::bfloat16, DataType::int64})
    for (const std::size_t count : {0, 1, 300, 5003}) {
      const std::size_t bytes = count * size_of(type);
      std::vector<std::vector<std::byte>> inputs;
      for (int i = 0; i < 3; ++i) inputs.push_back(random_elements(type, random, count));
      for (std::size_t n_sources = 1; n_sources <= inputs.size(); ++n_sources)
        for (std::size_t n_sinks = 1; n_sinks <= 3; ++n_sinks) {
          std::vector<std::vector<std::byte>> results;
          for (const bool block_copies : {false, true}) {
            Buffer in_place(bytes, 0), second(bytes, 3), third(bytes, 0);
            std::copy_n(inputs[0].data(), bytes, in_place.data());
            const std::vector<std::byte*> sinks{second.data(), in_place.data(), third.data()};
            std::vector<const std::byte*> sources{in_place.data()};
            for (std::size_t i = 1; i < n_sources; ++i) sources.push_back(inputs[i].data());
            kernels::fold_to_all(kernels::fold_for(type, ReduceOp::sum), size_of(type),
                                 std::span(sinks).first(n_sinks), sources, count,
                                 {.divisor = n_sources == 2 ? 2 : 1}, block_copies);
            for (std::size_t i = 0; i < n_sinks; ++i) results.emplace_back(sinks[i], sinks[i] + bytes);
            EXPECT_TRUE(in_place.guards_intact() && second.guards_intact() && third.guards_intact());
          }
          for (const auto& result : results) EXPECT_EQ(result, results[0]) << name(type) << " x " << count;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, RulesTest, testing::ValuesIn(WithInstructionSet::all()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

}  // namespace
}  // namespace tutti::test
