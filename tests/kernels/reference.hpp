// A slow fold, written from the contract alone: one element at a time, no vectors, no code of the library.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include <tutti/types.hpp>

#include "kernels/fold.hpp"

namespace tutti::test {

/// How a 16- or 8-bit float is laid out.
struct Layout {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
};
inline constexpr Layout layout_of(DataType type) {
  switch (type) {
    case DataType::float16:
      return {5, 10, true};
    case DataType::bfloat16:
      return {8, 7, true};
    case DataType::fp8_e4m3:
      return {4, 3, false};
    default:
      return {5, 2, true};
  }
}

/// The value of a code, by the definition of the format.
inline double value_of(std::uint32_t code, Layout layout) {
  const std::uint32_t mantissa_mask = (1U << layout.mantissa_bits) - 1;
  const std::uint32_t exponent_mask = (1U << layout.exponent_bits) - 1;
  const std::uint32_t mantissa = code & mantissa_mask;
  const std::uint32_t exponent = (code >> layout.mantissa_bits) & exponent_mask;
  const double sign = (code >> (layout.mantissa_bits + layout.exponent_bits)) != 0 ? -1.0 : 1.0;
  const int bias = (1 << (layout.exponent_bits - 1)) - 1;
  if (exponent == exponent_mask && layout.has_infinity) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  if (exponent == exponent_mask && mantissa == mantissa_mask) return std::nan("");
  const std::uint32_t significand = exponent == 0 ? mantissa : mantissa + mantissa_mask + 1;
  const int power = std::max(static_cast<int>(exponent), 1) - bias - layout.mantissa_bits;
  return sign * std::ldexp(static_cast<double>(significand), power);
}

/// The code nearest to `value`, ties to the even code; found by bisection among the codes, which ascend with
/// the value.
inline std::uint32_t code_of(double value, Layout layout) {
  const std::uint32_t sign = 1U << (layout.mantissa_bits + layout.exponent_bits);
  const std::uint32_t all_ones_exponent = ((1U << layout.exponent_bits) - 1) << layout.mantissa_bits;
  if (std::isnan(value)) {  // positive, quiet
    return layout.has_infinity ? all_ones_exponent | (1U << (layout.mantissa_bits - 1)) : sign - 1;
  }
  const std::uint32_t with_sign = std::signbit(value) ? sign : 0;
  const double magnitude = std::abs(value);
  const std::uint32_t largest = layout.has_infinity ? all_ones_exponent - 1 : sign - 2;
  std::uint32_t below = 0;  // the greatest finite code that is not above
  for (std::uint32_t step = sign >> 1; step != 0; step >>= 1) {
    if (below + step <= largest && value_of(below + step, layout) <= magnitude) below += step;
  }
  const double low = value_of(below, layout);
  // Past the largest finite value the next code would be one spacing on.
  const double next =
      below < largest ? value_of(below + 1, layout) : low + (low - value_of(below - 1, layout));
  const double middle = low + (next - low) / 2;
  const bool up = magnitude > middle || (magnitude == middle && (below & 1) != 0);
  const std::uint32_t code = up ? below + 1 : below;
  return with_sign | (layout.has_infinity ? code : std::min(code, largest));
}

/// NaN wins; -0 is below +0.
template <class T>
T least(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

template <class T>
T combine(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::min:
      return least(a, b);
    case ReduceOp::max:
      if constexpr (std::is_floating_point_v<T>) return -least(-a, -b);
      return a < b ? b : a;
    case ReduceOp::product:
      if constexpr (std::is_floating_point_v<T>)
        return a * b;
      else
        return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    default:
      if constexpr (std::is_floating_point_v<T>)
        return a + b;
      else
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}

template <class T>
T scale(T value, double factor) {
  if constexpr (std::is_floating_point_v<T>) {
    return value * static_cast<T>(factor);
  } else if (std::trunc(factor) == factor && std::abs(factor) <= 0x1p53) {
    return static_cast<T>(static_cast<std::uint64_t>(value) *
                          static_cast<std::uint64_t>(static_cast<std::int64_t>(factor)));
  } else {
    const long double scaled = std::trunc(static_cast<double>(value) * factor);  // float64, then truncated
    const long double low = std::numeric_limits<T>::min();
    const long double high = std::numeric_limits<T>::max();
    return static_cast<T>(std::clamp(scaled, low, high));
  }
}

/// Truncates integers toward zero.
template <class T>
T quotient(T value, std::int64_t divisor) {
  if constexpr (std::is_floating_point_v<T>)
    return value / static_cast<T>(divisor);
  else if constexpr (std::is_signed_v<T>)
    return static_cast<T>(std::int64_t{value} / divisor);
  else
    return static_cast<T>(static_cast<std::uint64_t>(value) / static_cast<std::uint64_t>(divisor));
}

/// One element: `values` from left to right in the accumulator type T.
template <class T>
T fold_values(ReduceOp op, const std::vector<T>& values, const kernels::FoldModifiers& modifiers) {
  const auto contribution = [&](std::size_t s) {
    const bool scaled = modifiers.factor != 1.0 && s < 64 && ((modifiers.scaled_sources >> s) & 1) != 0;
    return scaled ? scale(values[s], modifiers.factor) : values[s];
  };
  volatile T result = contribution(0);  // volatile: every step is rounded to T, nothing is fused
  for (std::size_t s = 1; s < values.size(); ++s) {
    const volatile T next = contribution(s);
    result = combine<T>(op, result, next);
  }
  if (modifiers.divisor != 1) result = quotient<T>(result, modifiers.divisor);
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(result)) return std::numeric_limits<T>::quiet_NaN();
  }
  return result;
}

template <class T>
std::vector<std::byte> fold_native(ReduceOp op, const std::vector<const std::byte*>& sources,
                                   std::size_t count, const kernels::FoldModifiers& modifiers) {
  std::vector<std::byte> result(count * sizeof(T));
  std::vector<T> values(sources.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t s = 0; s < sources.size(); ++s)
      std::memcpy(&values[s], sources[s] + i * sizeof(T), sizeof(T));
    const T folded = fold_values(op, values, modifiers);
    std::memcpy(result.data() + i * sizeof(T), &folded, sizeof(T));
  }
  return result;
}

template <class Code>
std::vector<std::byte> fold_small(DataType type, ReduceOp op, const std::vector<const std::byte*>& sources,
                                  std::size_t count, const kernels::FoldModifiers& modifiers) {
  const Layout layout = layout_of(type);
  std::vector<std::byte> result(count * sizeof(Code));
  std::vector<float> values(sources.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t s = 0; s < sources.size(); ++s) {
      Code code = 0;
      std::memcpy(&code, sources[s] + i * sizeof(Code), sizeof(Code));
      values[s] = static_cast<float>(value_of(code, layout));
    }
    const auto folded = static_cast<Code>(code_of(fold_values(op, values, modifiers), layout));
    std::memcpy(result.data() + i * sizeof(Code), &folded, sizeof(Code));
  }
  return result;
}

/// What a sink must hold.
inline std::vector<std::byte> reference_fold(DataType type, ReduceOp op,
                                             const std::vector<const std::byte*>& sources, std::size_t count,
                                             const kernels::FoldModifiers& modifiers) {
  const bool scaled = (modifiers.scaled_sources & 1) != 0 && modifiers.factor != 1.0;
  if (sources.size() == 1 && modifiers.divisor == 1 && !scaled) {
    return {sources[0], sources[0] + count * size_of(type)};
  }
  switch (type) {
    case DataType::int8:
      return fold_native<std::int8_t>(op, sources, count, modifiers);
    case DataType::uint8:
      return fold_native<std::uint8_t>(op, sources, count, modifiers);
    case DataType::int32:
      return fold_native<std::int32_t>(op, sources, count, modifiers);
    case DataType::uint32:
      return fold_native<std::uint32_t>(op, sources, count, modifiers);
    case DataType::int64:
      return fold_native<std::int64_t>(op, sources, count, modifiers);
    case DataType::uint64:
      return fold_native<std::uint64_t>(op, sources, count, modifiers);
    case DataType::float32:
      return fold_native<float>(op, sources, count, modifiers);
    case DataType::float64:
      return fold_native<double>(op, sources, count, modifiers);
    case DataType::float16:
    case DataType::bfloat16:
      return fold_small<std::uint16_t>(type, op, sources, count, modifiers);
    default:
      return fold_small<std::uint8_t>(type, op, sources, count, modifiers);
  }
}

}  // namespace tutti::test
