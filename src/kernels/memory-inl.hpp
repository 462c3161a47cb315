/// \file
/// Loads and stores at any address. Highway's own are for aligned lanes where a vector is shorter than 16
/// bytes. Compiled once for each instruction set (Highway's toggled guard).
#if defined(TUTTI_KERNELS_MEMORY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_MEMORY_INL
#undef TUTTI_KERNELS_MEMORY_INL
#else
#define TUTTI_KERNELS_MEMORY_INL
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
constexpr std::size_t vector_bytes() {
  return hn::MaxLanes(D()) * sizeof(hn::TFromD<D>);
}

/// A vector of at most 8 bytes as the single integer of that size.
template <class D>
using AsInteger = hn::Repartition<hwy::UnsignedFromSize<vector_bytes<D>()>, D>;

template <class D>
HWY_INLINE hn::Vec<D> load_vector(D d, const std::byte* from) {
  if constexpr (vector_bytes<D>() <= 8) {
    hn::TFromD<AsInteger<D>> bits;
    std::memcpy(&bits, from, sizeof(bits));
    return hn::BitCast(d, hn::Set(AsInteger<D>(), bits));
  } else {
    return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(from));
  }
}

template <class D>
HWY_INLINE void store_vector(hn::Vec<D> v, D d, std::byte* to) {
  if constexpr (vector_bytes<D>() <= 8) {
    const hn::TFromD<AsInteger<D>> bits = hn::GetLane(hn::BitCast(AsInteger<D>(), v));
    std::memcpy(to, &bits, sizeof(bits));
  } else {
    hn::StoreU(v, d, reinterpret_cast<hn::TFromD<D>*>(to));
  }
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
