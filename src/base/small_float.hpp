/// \file
/// The floating point formats of 8 and 16 bits, as numbers: one description for the scalar and the vector
/// conversions.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti {

/// A binary format narrower than float32, with subnormals. bfloat16 is not one of these: it is the top half
/// of a float32.
struct SmallFloat {
  int mantissa_bits;
  int bias;                ///< of the exponent
  std::uint32_t sign;      ///< the code of -0
  std::uint32_t overflow;  ///< the code that values too large get: infinity, or the largest finite value
  std::uint32_t nan;       ///< the code of the quiet NaN; all larger magnitudes are NaN too
  bool has_infinity;

  /// float32's mantissa has so many bits more.
  [[nodiscard]] constexpr int shift() const { return 23 - mantissa_bits; }
  /// What float32's exponent field has more, in place.
  [[nodiscard]] constexpr std::uint32_t rebias() const {
    return static_cast<std::uint32_t>(127 - bias) << 23;
  }
  /// The smallest normal magnitude, as float32 bits and as a code.
  [[nodiscard]] constexpr std::uint32_t smallest_normal() const { return rebias() + (1U << 23); }
  [[nodiscard]] constexpr std::uint32_t smallest_normal_code() const { return 1U << mantissa_bits; }
  /// The value of code 1: the spacing of subnormals.
  [[nodiscard]] constexpr float spacing() const { return power_of_two(1 - bias - mantissa_bits); }
  /// A float32 whose own spacing is that of the subnormals: adding it rounds a smaller number to a subnormal,
  /// ties to even.
  [[nodiscard]] constexpr float rounder() const { return power_of_two(1 - bias - mantissa_bits + 23); }

 private:
  static constexpr float power_of_two(int exponent) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(127 + exponent) << 23);
  }
};

inline constexpr SmallFloat float16_format{10, 15, 0x8000, 0x7C00, 0x7E00, true};
/// OCP OFP8: no infinities, S.1111.111 is NaN, 448 is the largest value.
inline constexpr SmallFloat e4m3_format{3, 7, 0x80, 0x7E, 0x7F, false};
inline constexpr SmallFloat e5m2_format{2, 15, 0x80, 0x7C, 0x7E, true};

}  // namespace tutti
