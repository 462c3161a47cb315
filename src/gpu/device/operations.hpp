/// \file
/// The reductions of two accumulators, and what a fold does besides: the scalar form of
/// kernels/operations-inl.hpp and kernels/modified_integer_fold.cpp, with the same bits as result.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <tutti/types.hpp>

#include "gpu/device/target.hpp"

namespace tutti::gpu::device {

/// What a fold does besides its operation; kernels::FoldModifiers says what it means.
struct Modifiers {
  std::uint64_t scaled_sources = 0;
  double factor = 1.0;
  std::int64_t divisor = 1;
};

template <class T>
TUTTI_DEVICE bool is_nan(T value) {
  return value != value;  // that is what a NaN does
}

/// NaN wins, -0 < +0.
template <class T>
TUTTI_DEVICE T extremum(T a, T b, bool smaller) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    // Zeros of either sign; else both are the same.
    if (a == b)
      return std::bit_cast<T>(static_cast<Bits>(smaller ? std::bit_cast<Bits>(a) | std::bit_cast<Bits>(b)
                                                        : std::bit_cast<Bits>(a) & std::bit_cast<Bits>(b)));
  }
  return (smaller ? a < b : b < a) ? a : b;
}

template <class T>
TUTTI_DEVICE T product(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b)));
  } else {
    return a * b;
  }
}

// What kernels are made for. `modifiable`: a fold may also scale and divide.

struct Sum {
  static constexpr bool modifiable = true;
  template <class T>
  TUTTI_DEVICE static T apply(ReduceOp, T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
    } else {
      return a + b;
    }
  }
};

/// Product, min and max, of which there are few calls: one kernel for all, which takes half a minute less to
/// compile.
struct Other {
  static constexpr bool modifiable = false;
  template <class T>
  TUTTI_DEVICE static T apply(ReduceOp op, T a, T b) {
    return op == ReduceOp::product ? product(a, b) : extremum(a, b, op == ReduceOp::min);
  }
};

/// Truncates toward zero; what does not fit becomes the nearest integer that does, NaN becomes 0.
template <class T>
TUTTI_DEVICE T truncated(double value) {
  constexpr double past = 2.0 * static_cast<double>(std::uint64_t{1} << (std::numeric_limits<T>::digits - 1));
  constexpr T largest = std::numeric_limits<T>::max(), smallest = std::numeric_limits<T>::min();
  if (is_nan(value)) return 0;
  if (value >= past) return largest;
  if (value <= static_cast<double>(smallest)) return smallest;
  return static_cast<T>(value);
}

/// Whole factors multiply integers as integers do, and wrap; with others the product is truncated.
template <class T>
TUTTI_DEVICE T scaled(T value, const Modifiers& modifiers) {
  const double factor = modifiers.factor;
  if constexpr (std::is_integral_v<T>) {
    constexpr double most = 9007199254740992;  // 2^53: up to there a float64 holds every whole number
    if (factor >= -most && factor <= most)
      if (const auto whole = static_cast<std::int64_t>(factor); static_cast<double>(whole) == factor)
        return static_cast<T>(static_cast<std::uint64_t>(value) * static_cast<std::uint64_t>(whole));
    return truncated<T>(static_cast<double>(value) * factor);
  } else {
    return value * static_cast<T>(factor);
  }
}

/// A GPU has no instruction for it, so this is a dozen of others, of which one copy is enough.
template <class T>
TUTTI_DEVICE_CALL T quotient(T value, std::int64_t divisor) {
  // Integers of up to 32 bits divide exactly, and faster, in float64.
  constexpr bool small = std::is_integral_v<T> && sizeof(T) < 8;
  using Wide = std::conditional_t<small, double, T>;
  return static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(divisor));
}

/// A result has only this one NaN.
template <class T>
TUTTI_DEVICE T with_one_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr T nan = std::numeric_limits<T>::quiet_NaN();
    if (is_nan(value)) return nan;
  }
  return value;
}

}  // namespace tutti::gpu::device
