/// \file
/// How elements become accumulators and back: the scalar form of kernels/formats-inl.hpp, for one GPU thread.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/small_float.hpp"
#include "gpu/device/target.hpp"

namespace tutti::gpu::device {

// Every format has: Accumulator; Stored, the integer or float of an element's size in memory; decode, and
// encode, whose NaN is the one of operations.hpp. Some have decode_two and encode_two, which take half as
// long: element 0 is in the lower half of both, and any NaN will do.

template <class T>
struct Native {
  using Accumulator = T;
  using Stored = T;
  TUTTI_DEVICE static T decode(T stored) { return stored; }
  TUTTI_DEVICE static T encode(T value) { return value; }
};

struct BFloat16 {
  using Accumulator = float;
  using Stored = std::uint16_t;
  TUTTI_DEVICE static float decode(Stored code) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16);
  }
  /// The quiet NaN rounds to itself.
  TUTTI_DEVICE static Stored encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<Stored>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
};

/// Any SmallFloat, with integer instructions.
template <class T, SmallFloat kFormat>
struct Small {
  using Accumulator = float;
  using Stored = T;

  TUTTI_DEVICE static float decode(Stored stored) {
    constexpr std::uint32_t sign = kFormat.sign, smallest_normal = kFormat.smallest_normal_code();
    constexpr std::uint32_t rebias = kFormat.rebias();
    constexpr std::uint32_t special = kFormat.has_infinity ? kFormat.overflow : kFormat.nan;
    constexpr int shift = kFormat.shift();
    constexpr float spacing = kFormat.spacing();
    const std::uint32_t code = stored;
    const std::uint32_t magnitude = code & (sign - 1);
    std::uint32_t bits = (magnitude << shift) + rebias;
    if (magnitude < smallest_normal)
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * spacing);
    // From there on up a code is infinity or NaN, and keeps its mantissa.
    if (magnitude >= special) bits = (magnitude << shift) | 0x7F800000U;
    return std::bit_cast<float>(bits | (code != magnitude ? 0x80000000U : 0U));
  }

  TUTTI_DEVICE static Stored encode(float value) {
    constexpr std::uint32_t sign = kFormat.sign, smallest_normal = kFormat.smallest_normal();
    constexpr std::uint32_t rebias = kFormat.rebias(), overflow = kFormat.overflow, nan = kFormat.nan;
    constexpr int shift = kFormat.shift();
    constexpr std::uint32_t below_half = (1U << (shift - 1)) - 1;
    constexpr float rounder = kFormat.rounder();
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    std::uint32_t code = (magnitude - rebias + below_half + ((magnitude >> shift) & 1U)) >> shift;
    if (code > overflow) code = overflow;
    if (magnitude < smallest_normal)
      code = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + rounder) -
             std::bit_cast<std::uint32_t>(rounder);
    if (magnitude > 0x7F800000U) code = nan;
    return static_cast<Stored>(code | (bits != magnitude ? sign : 0U));
  }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890  // conversions of two at a time, which round the same way

TUTTI_DEVICE void widen(std::uint32_t halves, float& first, float& second) {
  asm("{\n\t.reg .b16 first, second;\n\tmov.b32 {first, second}, %2;\n\t"
      "cvt.f32.f16 %0, first;\n\tcvt.f32.f16 %1, second;\n\t}"
      : "=f"(first), "=f"(second)
      : "r"(halves));
}

/// What is too large becomes the largest value there, too.
struct E4M3 : Small<std::uint8_t, e4m3_format> {
  TUTTI_DEVICE static void decode_two(std::uint16_t codes, float& first, float& second) {
    std::uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
    widen(halves, first, second);
  }
  TUTTI_DEVICE static std::uint16_t encode_two(float first, float second) {
    std::uint16_t codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
    return codes;
  }
};

/// Here it becomes infinity; and the NaN is another one.
struct E5M2 : Small<std::uint8_t, e5m2_format> {
  TUTTI_DEVICE static void decode_two(std::uint16_t codes, float& first, float& second) {
    std::uint32_t halves;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(codes));
    widen(halves, first, second);
  }
  TUTTI_DEVICE static std::uint16_t encode_two(float first, float second) {
    std::uint16_t codes;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
    return static_cast<std::uint16_t>(special(codes & 0xFFU, first) | special(codes >> 8U, second) << 8U);
  }

 private:
  TUTTI_DEVICE static std::uint32_t special(std::uint32_t code, float value) {
    constexpr std::uint32_t rounds_to_infinity = 0x47700000;  // 61440, half a step above the largest value
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
    if (magnitude < rounds_to_infinity) return code;
    return magnitude > 0x7F800000U ? e5m2_format.nan : e5m2_format.overflow | (code & e5m2_format.sign);
  }
};

#else
using E4M3 = Small<std::uint8_t, e4m3_format>;
using E5M2 = Small<std::uint8_t, e5m2_format>;
#endif

/// On a GPU with its own conversions, which round the same way but have another NaN.
struct Float16 {
  using Accumulator = float;
  using Stored = std::uint16_t;
#ifdef __CUDA_ARCH__
  TUTTI_DEVICE static float decode(Stored code) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(code));
    return value;
  }
  TUTTI_DEVICE static Stored encode(float value) {
    constexpr Stored nan = float16_format.nan;
    Stored code;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(value));
    return value != value ? nan : code;
  }
#else
  TUTTI_DEVICE static float decode(Stored code) { return Small<Stored, float16_format>::decode(code); }
  TUTTI_DEVICE static Stored encode(float value) { return Small<Stored, float16_format>::encode(value); }
#endif
};

}  // namespace tutti::gpu::device
