/// \file
/// Element types and reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tutti {

/// The number of a process or thread in a communicator, 0 <= rank < size.
using Rank = int;

/// Element types. The two fp8 formats are those of the OCP 8-bit floating point specification (OFP8).
enum class DataType : std::uint8_t {
  int8,
  uint8,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  fp8_e4m3,
  fp8_e5m2
};
inline constexpr int data_type_count = 12;  ///< of them

/// Element-wise reductions. Integer sums and products wrap; `average` is the sum divided by the number of
/// ranks (integers truncate toward zero). `min` and `max` propagate NaN, and to them -0 is less than +0.
/// Scaled contributions are rounded before they are reduced.
///
/// 8- and 16-bit floats are reduced in float32. Results of 8 bits are rounded to their type once, unless an
/// algorithm is forced or a schedule given. Those of 16 bits are also rounded on their way, wherever an
/// algorithm reduces in steps, so that a partial sum beyond 65504 makes a float16 infinite, be it that of an
/// average; with Options::rank_order they are rounded once, too. Rounding is that of `to_float16` and its
/// kin. What is computed of two or more contributions has one NaN: quiet, positive, without payload.
enum class ReduceOp : std::uint8_t { sum, product, min, max, average };
inline constexpr int reduce_op_count = 5;  ///< of them

/// A reduction, and the factor by which every rank's contribution is multiplied before it is reduced. The
/// factor may differ between ranks, but either all give one (to the constructor, or by `scaled_sum`; 1 counts
/// as one) or none does. Floats: the factor is rounded to float32 first, for float64 it is taken as it is.
/// Integers: a whole factor of up to 2^53 multiplies as integers do and wraps. With other factors the product
/// is one of float64 numbers, truncated toward zero; one that does not fit becomes the nearest value that
/// does, a NaN becomes 0. The idea is NCCL's `ncclRedOpCreatePreMulSum`.
struct Reduction {
  ReduceOp op = ReduceOp::sum;
  double factor = 1.0;
  bool scaled = false;  ///< a factor was given, on this rank and all others
  constexpr Reduction(ReduceOp operation) : op(operation) {}  // NOLINT(google-explicit-constructor)
  constexpr Reduction(ReduceOp operation, double scale) : op(operation), factor(scale), scaled(true) {}
  bool operator==(const Reduction&) const = default;
};

/// The sum of every rank's elements times that rank's `factor`.
constexpr Reduction scaled_sum(double factor) { return {ReduceOp::sum, factor}; }

/// Size of one element in bytes; 0 for a value outside the enumeration. Never throws.
constexpr std::size_t size_of(DataType type) noexcept {
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
    case DataType::fp8_e4m3:
    case DataType::fp8_e5m2:
      return 1;
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::int32:
    case DataType::uint32:
    case DataType::float32:
      return 4;
    case DataType::int64:
    case DataType::uint64:
    case DataType::float64:
      return 8;
  }
  return 0;
}

/// The name as written in this header ("float32", "sum"); "invalid" outside the enumeration.
std::string_view name(DataType type) noexcept;
std::string_view name(ReduceOp op) noexcept;
/// The inverse of `name`; also accepts nccl-tests' spellings ("float", "half", "double", "prod", "avg", ...).
/// Throws Error(invalid_argument) that lists what is accepted.
DataType parse_data_type(std::string_view text);
ReduceOp parse_reduce_op(std::string_view text);

/// Storage-only 16- and 8-bit floats: `bits` holds the encoding. They exist so that spans can be typed.
struct float16 {
  std::uint16_t bits = 0;
  bool operator==(const float16&) const = default;
};
struct bfloat16 {
  std::uint16_t bits = 0;
  bool operator==(const bfloat16&) const = default;
};
struct fp8_e4m3 {
  std::uint8_t bits = 0;
  bool operator==(const fp8_e4m3&) const = default;
};
struct fp8_e5m2 {
  std::uint8_t bits = 0;
  bool operator==(const fp8_e5m2&) const = default;
};

/// Nearest value of the format, ties to even; e4m3 saturates to its largest finite value (448), the others
/// overflow to infinity. NaN stays NaN.
float16 to_float16(float value) noexcept;
bfloat16 to_bfloat16(float value) noexcept;
fp8_e4m3 to_fp8_e4m3(float value) noexcept;
fp8_e5m2 to_fp8_e5m2(float value) noexcept;
/// Exact.
float to_float(float16 value) noexcept;
float to_float(bfloat16 value) noexcept;
float to_float(fp8_e4m3 value) noexcept;
float to_float(fp8_e5m2 value) noexcept;

namespace detail {
template <class T>
constexpr int index_of_type() {
  if constexpr (std::is_same_v<T, float16>)
    return static_cast<int>(DataType::float16);
  else if constexpr (std::is_same_v<T, bfloat16>)
    return static_cast<int>(DataType::bfloat16);
  else if constexpr (std::is_same_v<T, fp8_e4m3>)
    return static_cast<int>(DataType::fp8_e4m3);
  else if constexpr (std::is_same_v<T, fp8_e5m2>)
    return static_cast<int>(DataType::fp8_e5m2);
  else if constexpr (std::is_same_v<T, float>)
    return static_cast<int>(DataType::float32);
  else if constexpr (std::is_same_v<T, double>)
    return static_cast<int>(DataType::float64);
  else if constexpr (std::is_same_v<T, std::byte>)
    return static_cast<int>(DataType::uint8);
  else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    constexpr bool is_signed = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1)
      return static_cast<int>(is_signed ? DataType::int8 : DataType::uint8);
    else if constexpr (sizeof(T) == 4)
      return static_cast<int>(is_signed ? DataType::int32 : DataType::uint32);
    else if constexpr (sizeof(T) == 8)
      return static_cast<int>(is_signed ? DataType::int64 : DataType::uint64);
    else
      return -1;
  } else
    return -1;
}
}  // namespace detail

/// A C++ type that has a DataType: integers of 1, 4 and 8 bytes, float, double, the types above, and
/// `std::byte`, a uint8.
template <class T>
concept Element = detail::index_of_type<std::remove_cv_t<T>>()
>= 0;

/// The DataType of a C++ type.
template <Element T>
inline constexpr DataType data_type_of = static_cast<DataType>(detail::index_of_type<std::remove_cv_t<T>>());

}  // namespace tutti
