/// \file
/// What one call of a fold works on: where the sources and sinks are and what happens besides the operation.
/// The loops in fold-inl.hpp are written once over a job; the plain one exists because it stays in registers.
/// Compiled once for each instruction set.
#if defined(TUTTI_KERNELS_JOBS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_JOBS_INL
#undef TUTTI_KERNELS_JOBS_INL
#else
#define TUTTI_KERNELS_JOBS_INL
#endif

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/families.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Sinks = std::span<std::byte* const>;
using Sources = std::span<const std::byte* const>;

/// Two sources into `kSinks` sinks, and nothing else.
template <std::size_t kSinks>
class PlainJob {
 public:
  PlainJob(Sinks sinks, Sources sources, std::uint64_t shared_sinks)
      : sources_{sources[0], sources[1]}, shared_(shared_sinks) {
    std::copy_n(sinks.begin(), kSinks, sinks_.begin());
  }
  static constexpr std::size_t sinks() { return kSinks; }
  static constexpr std::size_t sources() { return 2; }
  [[nodiscard]] HWY_INLINE std::byte* sink(std::size_t k) const { return sinks_[k]; }
  [[nodiscard]] HWY_INLINE const std::byte* source(std::size_t s) const { return sources_[s]; }
  [[nodiscard]] static constexpr bool streams(std::size_t) { return false; }
  [[nodiscard]] HWY_INLINE bool shared(std::size_t k) const { return ((shared_ >> k) & 1) != 0; }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V scaled(D, std::size_t, V v) const {
    return v;
  }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V divided(D, V v) const {
    return v;
  }

 private:
  std::array<const std::byte*, 2> sources_;
  std::array<std::byte*, kSinks> sinks_;
  std::uint64_t shared_;
};

/// Everything that the contract allows; integers come here without arithmetic only.
template <class Lane>
class GeneralJob {
 public:
  GeneralJob(Sinks sinks, Sources sources, const FoldModifiers& modifiers)
      : sinks_(sinks),
        sources_(sources),
        scaled_(scales(modifiers, sources.size()) ? modifiers.scaled_sources : 0),
        streaming_(modifiers.streaming_sinks),
        shared_(modifiers.shared_sinks),
        factor_(static_cast<Lane>(modifiers.factor)),
        divisor_(static_cast<Lane>(modifiers.divisor)),
        divides_(modifiers.divisor != 1) {
    assert(modifiers.divisor > 0);
  }
  [[nodiscard]] std::size_t sinks() const { return sinks_.size(); }
  [[nodiscard]] std::size_t sources() const { return sources_.size(); }
  [[nodiscard]] HWY_INLINE std::byte* sink(std::size_t k) const { return sinks_[k]; }
  [[nodiscard]] HWY_INLINE const std::byte* source(std::size_t s) const { return sources_[s]; }
  [[nodiscard]] HWY_INLINE bool streams(std::size_t k) const {
    return k < 64 && ((streaming_ >> k) & 1) != 0;
  }
  [[nodiscard]] HWY_INLINE bool shared(std::size_t k) const { return k < 64 && ((shared_ >> k) & 1) != 0; }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V scaled(D d, std::size_t s, V v) const {
    if constexpr (std::is_floating_point_v<Lane>) {
      if (s < 64 && ((scaled_ >> s) & 1) != 0) return hn::Mul(v, hn::Set(d, factor_));
    }
    return v;
  }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V divided(D d, V v) const {
    if constexpr (std::is_floating_point_v<Lane>) {
      if (divides_) return hn::Div(v, hn::Set(d, divisor_));
    }
    return v;
  }

  /// Streaming stores need aligned addresses. Returns how many elements (at most `count`) come before the
  /// first streaming sink is a multiple of `vector_bytes`; sinks that are not aligned there are written
  /// through the caches.
  std::size_t align_streams(std::size_t vector_bytes, std::size_t element_bytes, std::size_t count) {
    if (streaming_ == 0) return 0;
    std::size_t head = 0;
    std::uint64_t aligned = 0;
    for (std::size_t k = 0; k < sinks_.size(); ++k) {
      const std::size_t missing = (0 - reinterpret_cast<std::uintptr_t>(sinks_[k])) % vector_bytes;
      if (!streams(k) || missing % element_bytes != 0) continue;
      if (aligned == 0) head = missing / element_bytes;
      if (head == missing / element_bytes) aligned |= std::uint64_t{1} << k;
    }
    streaming_ = aligned;
    return std::min(head, count);
  }
  [[nodiscard]] bool streams_any() const { return streaming_ != 0; }

 private:
  Sinks sinks_;
  Sources sources_;
  std::uint64_t scaled_;
  std::uint64_t streaming_;
  std::uint64_t shared_;
  Lane factor_;
  Lane divisor_;
  bool divides_;
};

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
