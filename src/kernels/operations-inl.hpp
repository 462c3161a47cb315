/// \file
/// The operations on vectors. Compiled once for each instruction set (Highway's toggled guard).
#if defined(TUTTI_KERNELS_OPERATIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_OPERATIONS_INL
#undef TUTTI_KERNELS_OPERATIONS_INL
#else
#define TUTTI_KERNELS_OPERATIONS_INL
#endif

#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Add(a, b);
  }
};

struct Product {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Mul(a, b);
  }
};

/// Processors disagree about NaN and about the order of zeros, so both are spelt out: NaN wins, -0 < +0.
template <bool kMin>
struct Extremum {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      const auto a_wins = kMin ? hn::Lt(a, b) : hn::Gt(a, b);
      const V if_equal = kMin ? hn::Or(a, b) : hn::And(a, b);  // zeros of either sign; else both are the same
      const V ordered = hn::IfThenElse(hn::Eq(a, b), if_equal, hn::IfThenElse(a_wins, a, b));
      return hn::IfThenElse(hn::IsNaN(a), a, ordered);  // a NaN in b is there already
    } else {
      return kMin ? hn::Min(a, b) : hn::Max(a, b);
    }
  }
};
using Minimum = Extremum<true>;
using Maximum = Extremum<false>;

/// Which NaN an addition returns depends on the instruction set and on the compiler; a result has only this
/// one.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V with_one_nan(D d, V v) {
  using Lane = hn::TFromD<D>;
  if constexpr (hwy::IsFloat<Lane>()) {
    return hn::IfThenElse(hn::IsNaN(v), hn::Set(d, std::numeric_limits<Lane>::quiet_NaN()), v);
  } else {
    return v;
  }
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
