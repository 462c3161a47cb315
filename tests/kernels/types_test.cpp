// Names, and the scalar conversions against the definition of each format.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include <tutti/error.hpp>

#include "kernels/fixture.hpp"
#include "kernels/reference.hpp"
#include "thrown.hpp"

namespace tutti::test {
namespace {

TEST(Elements, HaveTheTypeOfTheirSizeAndSign) {
  EXPECT_EQ(data_type_of<std::byte>, DataType::uint8);
  EXPECT_EQ(data_type_of<signed char>, DataType::int8);
  EXPECT_EQ(data_type_of<unsigned>, DataType::uint32);
  EXPECT_EQ(data_type_of<long long>, DataType::int64);
  EXPECT_EQ(data_type_of<const double>, DataType::float64);
  EXPECT_EQ(data_type_of<fp8_e5m2>, DataType::fp8_e5m2);
  static_assert(!Element<bool> && !Element<short> && !Element<long double> && !Element<void*>);
}

TEST(Names, RoundTrip) {
  for (const DataType type : all_types) EXPECT_EQ(parse_data_type(name(type)), type);
  for (const ReduceOp op : all_ops) EXPECT_EQ(parse_reduce_op(name(op)), op);
  EXPECT_EQ(name(DataType::bfloat16), "bfloat16");
  EXPECT_EQ(name(ReduceOp::average), "average");
  EXPECT_EQ(name(static_cast<DataType>(99)), "invalid");
  EXPECT_EQ(name(static_cast<ReduceOp>(99)), "invalid");
}

TEST(Names, AcceptsNcclTestsSpellings) {
  EXPECT_EQ(parse_data_type("half"), DataType::float16);
  EXPECT_EQ(parse_data_type("float"), DataType::float32);
  EXPECT_EQ(parse_data_type("double"), DataType::float64);
  EXPECT_EQ(parse_data_type("f8e4m3"), DataType::fp8_e4m3);
  EXPECT_EQ(parse_data_type("f8e5m2"), DataType::fp8_e5m2);
  EXPECT_EQ(parse_reduce_op("prod"), ReduceOp::product);
  EXPECT_EQ(parse_reduce_op("avg"), ReduceOp::average);
}

TEST(Names, RefusesOthersAndListsWhatIsAccepted) {
  const auto error = thrown_by([&] { parse_data_type("float31"); });
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_NE(error.text.find("float31"), std::string::npos) << error.text;
  for (const DataType type : all_types) {
    EXPECT_NE(error.text.find(name(type)), std::string::npos) << error.text;
  }
  EXPECT_THROW(parse_reduce_op(""), Error);
  EXPECT_THROW(parse_reduce_op("invalid"), Error);
}

template <class T>
struct Conversion;
template <>
struct Conversion<float16> {
  static constexpr DataType type = DataType::float16;
  static float16 from(float value) { return to_float16(value); }
};
template <>
struct Conversion<bfloat16> {
  static constexpr DataType type = DataType::bfloat16;
  static bfloat16 from(float value) { return to_bfloat16(value); }
};
template <>
struct Conversion<fp8_e4m3> {
  static constexpr DataType type = DataType::fp8_e4m3;
  static fp8_e4m3 from(float value) { return to_fp8_e4m3(value); }
};
template <>
struct Conversion<fp8_e5m2> {
  static constexpr DataType type = DataType::fp8_e5m2;
  static fp8_e5m2 from(float value) { return to_fp8_e5m2(value); }
};

template <class T>
class ConversionTest : public testing::Test {
 protected:
  using Code = decltype(T::bits);
  static constexpr Layout layout = layout_of(Conversion<T>::type);
  static constexpr std::uint32_t codes = 1U << (8 * sizeof(T));

  static void check(float value) {
    const T converted = Conversion<T>::from(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(converted)));
      ASSERT_EQ(std::signbit(value), std::signbit(to_float(converted)));
    } else {
      ASSERT_EQ(converted.bits, code_of(value, layout)) << value;
    }
  }
};
using SmallTypes = testing::Types<float16, bfloat16, fp8_e4m3, fp8_e5m2>;
TYPED_TEST_SUITE(ConversionTest, SmallTypes);

TYPED_TEST(ConversionTest, EveryCodeHasItsValueAndComesBack) {
  for (std::uint32_t code = 0; code < TestFixture::codes; ++code) {
    const TypeParam value{static_cast<typename TestFixture::Code>(code)};
    const double expected = value_of(code, TestFixture::layout);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(to_float(value))) << code;
      ASSERT_TRUE(std::isnan(to_float(Conversion<TypeParam>::from(to_float(value))))) << code;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(double{to_float(value)}), std::bit_cast<std::uint64_t>(expected))
          << code;
      const bool infinite = std::isinf(expected) && !TestFixture::layout.has_infinity;
      ASSERT_FALSE(infinite);
      ASSERT_EQ(Conversion<TypeParam>::from(to_float(value)).bits, code);
    }
  }
}

TYPED_TEST(ConversionTest, MidpointsAndTheirNeighboursRoundToNearestEven) {
  const std::uint32_t sign = TestFixture::codes / 2;
  for (std::uint32_t code = 0; code + 1 < sign; ++code) {
    const double low = value_of(code, TestFixture::layout);
    const double high = value_of(code + 1, TestFixture::layout);
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const auto middle = static_cast<float>((low + high) / 2);
    for (const float value : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, INFINITY)}) {
      ASSERT_NO_FATAL_FAILURE(TestFixture::check(value));
      ASSERT_NO_FATAL_FAILURE(TestFixture::check(-value));
    }
  }
}

TYPED_TEST(ConversionTest, SweepOfAllExponents) {
  for (std::uint64_t bits = 0; bits <= UINT32_MAX; bits += 8191) {
    ASSERT_NO_FATAL_FAILURE(TestFixture::check(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
  }
  using Limits = std::numeric_limits<float>;
  for (const float value :
       {0.0F, Limits::max(), Limits::infinity(), Limits::denorm_min(), Limits::min(), Limits::quiet_NaN(),
        448.0F, 464.0F, 465.0F, 57344.0F, 61440.0F, 65504.0F, 65520.0F}) {
    ASSERT_NO_FATAL_FAILURE(TestFixture::check(value));
    ASSERT_NO_FATAL_FAILURE(TestFixture::check(-value));
  }
}

TEST(Conversions, LimitsOfTheFormats) {
  EXPECT_EQ(to_float(fp8_e4m3{0x7E}), 448.0F);
  EXPECT_EQ(to_fp8_e4m3(1e9F).bits, 0x7E);
  EXPECT_EQ(to_fp8_e4m3(-INFINITY).bits, 0xFE);
  EXPECT_EQ(to_float(fp8_e5m2{0x7B}), 57344.0F);
  EXPECT_EQ(to_fp8_e5m2(61440.0F).bits, 0x7C);
  EXPECT_EQ(to_float16(65520.0F).bits, 0x7C00);
  EXPECT_EQ(to_float(float16{0x0001}), 0x1p-24F);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x7F800001U)).bits, 0x7FC0)
      << "a NaN must not round to infinity";
}

}  // namespace
}  // namespace tutti::test
