#include <tutti/types.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include <tutti/error.hpp>

#include "base/small_float.hpp"

namespace tutti {
namespace {

template <class T>
struct Spelling {
  std::string_view text;
  T value;
};

// The first spelling of a value is its name, the others are nccl-tests'.
constexpr std::array<Spelling<DataType>, 17> data_types{{
    {"int8", DataType::int8},
    {"uint8", DataType::uint8},
    {"int32", DataType::int32},
    {"uint32", DataType::uint32},
    {"int64", DataType::int64},
    {"uint64", DataType::uint64},
    {"float16", DataType::float16},
    {"bfloat16", DataType::bfloat16},
    {"float32", DataType::float32},
    {"float64", DataType::float64},
    {"fp8_e4m3", DataType::fp8_e4m3},
    {"fp8_e5m2", DataType::fp8_e5m2},
    {"half", DataType::float16},
    {"float", DataType::float32},
    {"double", DataType::float64},
    {"f8e4m3", DataType::fp8_e4m3},
    {"f8e5m2", DataType::fp8_e5m2},
}};
constexpr std::array<Spelling<ReduceOp>, 7> reduce_ops{{
    {"sum", ReduceOp::sum},
    {"product", ReduceOp::product},
    {"min", ReduceOp::min},
    {"max", ReduceOp::max},
    {"average", ReduceOp::average},
    {"prod", ReduceOp::product},
    {"avg", ReduceOp::average},
}};

template <class Table, class T>
std::string_view name_in(const Table& table, T value) noexcept {
  const auto* const found =
      std::find_if(table.begin(), table.end(), [&](const auto& s) { return s.value == value; });
  return found == table.end() ? "invalid" : found->text;
}

template <class Table>
auto parse_in(const Table& table, std::string_view text, std::string_view what) {
  const auto* const found =
      std::find_if(table.begin(), table.end(), [&](const auto& s) { return s.text == text; });
  if (found != table.end()) return found->value;
  std::string message = "\"";
  message.append(text).append("\" is not ").append(what).append("; use one of:");
  for (const auto& spelling : table) message.append(" ").append(spelling.text);
  throw Error(ErrorCode::invalid_argument, message);
}

template <SmallFloat kFormat>
std::uint32_t encode(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t sign = bits == magnitude ? 0 : kFormat.sign;
  if (magnitude > 0x7F800000U) return sign | kFormat.nan;
  if (magnitude < kFormat.smallest_normal()) {
    const float rounded = std::bit_cast<float>(magnitude) + kFormat.rounder();
    return sign | (std::bit_cast<std::uint32_t>(rounded) - std::bit_cast<std::uint32_t>(kFormat.rounder()));
  }
  const std::uint32_t below_half = (1U << (kFormat.shift() - 1)) - 1;
  const std::uint32_t odd = (magnitude >> kFormat.shift()) & 1U;
  const std::uint32_t code = (magnitude - kFormat.rebias() + below_half + odd) >> kFormat.shift();
  return sign | std::min(code, kFormat.overflow);
}

template <SmallFloat kFormat>
float decode(std::uint32_t code) noexcept {
  const std::uint32_t magnitude = code & (kFormat.sign - 1);
  const bool negative = code != magnitude;
  std::uint32_t bits = (magnitude << kFormat.shift()) + kFormat.rebias();
  if (magnitude < kFormat.smallest_normal_code()) {
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * kFormat.spacing());
  } else if (kFormat.has_infinity ? magnitude > kFormat.overflow : magnitude == kFormat.nan) {
    bits = 0x7FC00000U | (magnitude << kFormat.shift());
  } else if (kFormat.has_infinity && magnitude == kFormat.overflow) {
    bits = 0x7F800000U;
  }
  return std::bit_cast<float>(bits | (negative ? 0x80000000U : 0));
}

}  // namespace

std::string_view name(DataType type) noexcept { return name_in(data_types, type); }
std::string_view name(ReduceOp op) noexcept { return name_in(reduce_ops, op); }
DataType parse_data_type(std::string_view text) { return parse_in(data_types, text, "an element type"); }
ReduceOp parse_reduce_op(std::string_view text) { return parse_in(reduce_ops, text, "a reduction"); }

float16 to_float16(float value) noexcept {
  return {static_cast<std::uint16_t>(encode<float16_format>(value))};
}
fp8_e4m3 to_fp8_e4m3(float value) noexcept { return {static_cast<std::uint8_t>(encode<e4m3_format>(value))}; }
fp8_e5m2 to_fp8_e5m2(float value) noexcept { return {static_cast<std::uint8_t>(encode<e5m2_format>(value))}; }

bfloat16 to_bfloat16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  constexpr std::uint32_t quiet = 0x40;
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<std::uint16_t>((bits >> 16) | quiet)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

float to_float(float16 value) noexcept { return decode<float16_format>(value.bits); }
float to_float(fp8_e4m3 value) noexcept { return decode<e4m3_format>(value.bits); }
float to_float(fp8_e5m2 value) noexcept { return decode<e5m2_format>(value.bits); }
float to_float(bfloat16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

}  // namespace tutti
