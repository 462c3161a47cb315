#include <algorithm>
#include <cassert>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/families.hpp"

namespace tutti::kernels {
namespace {

template <std::integral T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Truncates toward zero; what does not fit becomes the nearest integer that does, NaN becomes 0.
template <std::integral T>
T truncated(double value) {
  // The first power of two past the largest T: exact in float64, which the largest T of 64 bits is not.
  const double past = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (std::isnan(value)) return 0;
  if (value >= past) return std::numeric_limits<T>::max();
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(value);
}

/// Whole factors multiply as integers do, and wrap; with others the product is truncated.
template <std::integral T>
class Scale {
 public:
  explicit Scale(double factor) : factor_(factor) {
    constexpr double most = 9007199254740992;  // 2^53: up to there a float64 holds every whole number
    whole_ = std::abs(factor) <= most && std::trunc(factor) == factor;
    if (whole_) bits_ = static_cast<std::uint64_t>(static_cast<std::int64_t>(factor));
  }
  T operator()(T value) const {
    if (whole_) return static_cast<T>(static_cast<std::uint64_t>(value) * bits_);
    return truncated<T>(static_cast<double>(value) * factor_);
  }

 private:
  double factor_;
  std::uint64_t bits_ = 0;
  bool whole_ = false;
};

template <std::integral T, ReduceOp kOp>
T combined(T a, T b) {
  if constexpr (kOp == ReduceOp::min) return std::min(a, b);
  if constexpr (kOp == ReduceOp::max) return std::max(a, b);
  // In 64 unsigned bits nothing overflows undefinedly, and the low bits wrap as those of T do.
  using Unsigned = std::make_unsigned_t<T>;
  const std::uint64_t wide_a = static_cast<Unsigned>(a);
  const std::uint64_t wide_b = static_cast<Unsigned>(b);
  return static_cast<T>(kOp == ReduceOp::product ? wide_a * wide_b : wide_a + wide_b);
}

template <std::integral T>
T divided(T value, std::int64_t divisor) {
  if constexpr (sizeof(T) < 8) {
    return static_cast<T>(static_cast<double>(value) / static_cast<double>(divisor));  // exact, and faster
  } else if constexpr (std::is_signed_v<T>) {
    return value / divisor;
  } else {
    return value / static_cast<T>(divisor);
  }
}

template <std::integral T, ReduceOp kOp>
void fold(std::span<std::byte* const> sinks, std::span<const std::byte* const> sources, std::size_t count,
          const FoldModifiers& modifiers) {
  assert(modifiers.divisor > 0);
  const Scale<T> scale(modifiers.factor);
  const std::uint64_t scaled = scales(modifiers, sources.size()) ? modifiers.scaled_sources : 0;
  for (std::size_t offset = 0; offset < count * sizeof(T); offset += sizeof(T)) {
    T result{};
    for (std::size_t s = 0; s < sources.size(); ++s) {
      T value = load<T>(sources[s] + offset);
      if (s < 64 && ((scaled >> s) & 1) != 0) value = scale(value);
      result = s == 0 ? value : combined<T, kOp>(result, value);
    }
    if (modifiers.divisor != 1) result = divided(result, modifiers.divisor);
    for (std::byte* const sink : sinks) std::memcpy(sink + offset, &result, sizeof(T));
  }
}

template <std::integral T>
Fold by_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::product:
      return &fold<T, ReduceOp::product>;
    case ReduceOp::min:
      return &fold<T, ReduceOp::min>;
    case ReduceOp::max:
      return &fold<T, ReduceOp::max>;
    default:
      return &fold<T, ReduceOp::sum>;
  }
}

}  // namespace

Fold modified_integer_fold(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::int8:
      return by_op<std::int8_t>(op);
    case DataType::uint8:
      return by_op<std::uint8_t>(op);
    case DataType::int32:
      return by_op<std::int32_t>(op);
    case DataType::uint32:
      return by_op<std::uint32_t>(op);
    case DataType::int64:
      return by_op<std::int64_t>(op);
    default:
      return by_op<std::uint64_t>(op);
  }
}

}  // namespace tutti::kernels
