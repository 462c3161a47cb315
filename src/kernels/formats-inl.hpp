/// \file
/// How the elements of a type become vectors of its accumulator, and back. Compiled once for each instruction
/// set.
#if defined(TUTTI_KERNELS_FORMATS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_FORMATS_INL
#undef TUTTI_KERNELS_FORMATS_INL
#else
#define TUTTI_KERNELS_FORMATS_INL
#endif

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/small_float.hpp"
#include "hwy/highway.h"
#include "kernels/memory-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Every format has: Lane, the accumulator; Stored, the integer or float of an element's size in memory;
// load(d, from) and pack(d, v), the vector of Stored that goes to memory. `d` is a tag of Lane.

template <class T>
struct Native {
  using Lane = T;
  using Stored = T;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    return load_vector(d, from);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> pack(D, hn::Vec<D> v) {
    return v;
  }
};

/// Unsigned integers in lanes twice or four times as wide; results wrap to the element's size.
template <class T, class Wide>
struct Widened {
  using Lane = Wide;
  using Stored = T;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    return hn::PromoteTo(d, load_vector(hn::Rebind<T, D>(), from));
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<T, D>> pack(D, hn::Vec<D> v) {
    return hn::TruncateTo(hn::Rebind<T, D>(), v);
  }
};

struct BFloat16 {
  using Lane = float;
  using Stored = std::uint16_t;
  using Bits = Widened<Stored, std::uint32_t>;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    return hn::BitCast(d, hn::ShiftLeft<16>(Bits::load(hn::Rebind<std::uint32_t, D>(), from)));
  }
  /// The quiet NaN rounds to itself.
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<Stored, D>> pack(D, hn::Vec<D> v) {
    const hn::Rebind<std::uint32_t, D> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    return Bits::pack(du, hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)))));
  }
};

/// Any SmallFloat, with integer instructions: the vector form of `encode` and `decode` in base/types.cpp.
template <class T, SmallFloat kFormat>
struct Small {
  using Lane = float;
  using Stored = T;
  using Bits = Widened<T, std::uint32_t>;

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    const hn::Rebind<std::int32_t, D> di;
    const auto code = hn::BitCast(di, Bits::load(hn::Rebind<std::uint32_t, D>(), from));
    const auto magnitude = hn::And(code, set(di, kFormat.sign - 1));
    const auto negative = hn::ShiftLeft<32 - std::bit_width(kFormat.sign)>(hn::Xor(code, magnitude));
    const auto shifted = hn::ShiftLeft<kFormat.shift()>(magnitude);
    const auto subnormal = hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, kFormat.spacing()));
    auto bits = hn::IfThenElse(hn::Lt(magnitude, set(di, kFormat.smallest_normal_code())),
                               hn::BitCast(di, subnormal), hn::Add(shifted, set(di, kFormat.rebias())));
    // From here on up a code is infinity or NaN, and keeps its mantissa.
    const std::uint32_t special = kFormat.has_infinity ? kFormat.overflow : kFormat.nan;
    bits = hn::IfThenElse(hn::Lt(magnitude, set(di, special)), bits, hn::Or(shifted, set(di, 0x7F800000U)));
    return hn::BitCast(d, hn::Or(bits, negative));
  }

  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<Stored, D>> pack(D d, hn::Vec<D> v) {
    const hn::Rebind<std::int32_t, D> di;
    const auto bits = hn::BitCast(di, v);
    const auto magnitude = hn::And(bits, set(di, 0x7FFFFFFFU));
    const auto negative =
        hn::And(hn::ShiftRight<32 - std::bit_width(kFormat.sign)>(bits), set(di, kFormat.sign));
    const auto rounder = hn::Set(d, kFormat.rounder());
    const auto subnormal =
        hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), rounder)), hn::BitCast(di, rounder));
    const auto odd = hn::And(hn::ShiftRight<kFormat.shift()>(magnitude), set(di, 1));
    const auto below_half = set(di, (1U << (kFormat.shift() - 1)) - 1);
    const auto rebiased = hn::Sub(magnitude, set(di, kFormat.rebias()));
    const auto normal = hn::ShiftRight<kFormat.shift()>(hn::Add(rebiased, hn::Add(below_half, odd)));
    auto code = hn::IfThenElse(hn::Lt(magnitude, set(di, kFormat.smallest_normal())), subnormal,
                               hn::Min(normal, set(di, kFormat.overflow)));
    code = hn::IfThenElse(hn::Gt(magnitude, set(di, 0x7F800000U)), set(di, kFormat.nan), code);
    const hn::Rebind<std::uint32_t, D> du;
    return Bits::pack(du, hn::BitCast(du, hn::Or(code, negative)));
  }

 private:
  template <class DI>
  static HWY_INLINE hn::Vec<DI> set(DI di, std::uint32_t value) {
    return hn::Set(di, static_cast<std::int32_t>(value));
  }
};

using E4M3 = Small<std::uint8_t, e4m3_format>;
using E5M2 = Small<std::uint8_t, e5m2_format>;

// Without instructions for it (F16C, which comes with AVX2 here) Highway rounds towards zero and has no
// infinity.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || (HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2)
using Float16 = Small<std::uint16_t, float16_format>;
#else
/// With the processor's own conversions.
struct Float16 {
  using Lane = float;
  using Stored = std::uint16_t;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    const auto bits = load_vector(hn::Rebind<Stored, D>(), from);
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<Stored, D>> pack(D, hn::Vec<D> v) {
    return hn::BitCast(hn::Rebind<Stored, D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
  }
};
#endif

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
