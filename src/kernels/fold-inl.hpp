/// \file
/// The loops of a fold, over any format, operation and job. Compiled once for each instruction set.
#if defined(TUTTI_KERNELS_FOLD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_FOLD_INL
#undef TUTTI_KERNELS_FOLD_INL
#else
#define TUTTI_KERNELS_FOLD_INL
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/prefetch.hpp"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/formats-inl.hpp"
#include "kernels/jobs-inl.hpp"
#include "kernels/operations-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Vectors in flight: enough to hide the latency of an addition. The conversions of 8-bit floats are long
/// enough alone.
template <class Format>
constexpr std::size_t unroll() {
  return sizeof(typename Format::Lane) > 2 * sizeof(typename Format::Stored) ? 1 : 4;
}

/// True if whole vectors of the format can be written past the caches (Highway writes at least 16 bytes).
template <class Format, class D>
constexpr bool can_stream() {
  constexpr std::size_t bytes = hn::MaxLanes(D()) * sizeof(typename Format::Stored);
  return std::is_same_v<D, hn::ScalableTag<typename Format::Lane>> && bytes >= HWY_STREAM_MULTIPLE;
}

/// `kVectors` vectors of elements, `offset` bytes into every source and sink.
template <class Format, class Op, std::size_t kVectors, class D, class Job>
HWY_INLINE void fold_vectors(D d, const Job& job, std::size_t offset) {
  using Stored = typename Format::Stored;
  constexpr std::size_t step = hn::MaxLanes(D()) * sizeof(Stored);
  hn::Vec<D> result[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    result[v] = job.scaled(d, 0, Format::load(d, job.source(0) + offset + v * step));
  }
  for (std::size_t s = 1; s < job.sources(); ++s) {
    const std::byte* const source = job.source(s) + offset;
    for (std::size_t v = 0; v < kVectors; ++v) {
      result[v] = Op::apply(d, result[v], job.scaled(d, s, Format::load(d, source + v * step)));
    }
  }
  const hn::Rebind<Stored, D> stored;
  hn::Vec<decltype(stored)> packed[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    packed[v] = Format::pack(d, with_one_nan(d, job.divided(d, result[v])));
  }
  for (std::size_t k = 0; k < job.sinks(); ++k) {
    std::byte* const sink = job.sink(k) + offset;
    const bool past_caches = can_stream<Format, D>() && job.streams(k);
    for (std::size_t v = 0; v < kVectors; ++v) {
      std::byte* const to = sink + v * step;
      if (past_caches) {
        if constexpr (can_stream<Format, D>()) hn::Stream(packed[v], stored, reinterpret_cast<Stored*>(to));
      } else {
        store_vector(packed[v], stored, to);
      }
    }
  }
}

/// Elements [begin, end), fewer than two vectors of `d`: in vectors of half the size, and half of that.
template <class Format, class Op, class D, class Job>
HWY_INLINE void fold_rest(D d, const Job& job, std::size_t begin, std::size_t end) {
  if (end - begin >= hn::Lanes(d)) {
    fold_vectors<Format, Op, 1>(d, job, begin * sizeof(typename Format::Stored));
    begin += hn::Lanes(d);
  }
  if constexpr (hn::MaxLanes(D()) > 1) fold_rest<Format, Op>(hn::Half<D>(), job, begin, end);
}

/// Asks for `bytes` of every source, some way ahead of `offset`. Any address will do.
template <class Job>
HWY_INLINE void prefetch_sources(const Job& job, std::size_t offset, std::size_t bytes) {
  constexpr std::size_t ahead = 1024;
  for (std::size_t s = 0; s < job.sources(); ++s) {
    for (std::size_t line = 0; line < bytes; line += 64) hwy::Prefetch(job.source(s) + offset + ahead + line);
  }
}

/// Asks for `bytes` of every sink that another core read last, some way ahead of `offset`: waiting for the
/// right to write its lines would be most of the time. Any address will do.
template <class Job>
HWY_INLINE void prefetch_shared_sinks(const Job& job, std::size_t offset, std::size_t bytes) {
  constexpr std::size_t ahead = 512;
  for (std::size_t k = 0; k < job.sinks(); ++k) {
    if (!job.shared(k)) continue;
    for (std::size_t line = 0; line < bytes; line += 64)
      prefetch_for_write(job.sink(k) + offset + ahead + line);
  }
}

/// Elements [begin, end).
template <class Format, class Op, class Job>
HWY_INLINE void fold_range(const Job& job, std::size_t begin, std::size_t end) {
  const hn::ScalableTag<typename Format::Lane> d;
  constexpr std::size_t size = sizeof(typename Format::Stored);
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t group = unroll<Format>();
  if constexpr (group > 1) {
    // From memory the prefetches are worth a tenth, from the nearer caches they cost as much.
    constexpr std::size_t from_memory = std::size_t{4} << 20;
    const bool prefetches = (end - begin) * size >= from_memory;
    for (; end - begin >= group * lanes; begin += group * lanes) {
      if (prefetches) prefetch_sources(job, begin * size, group * lanes * size);
      prefetch_shared_sinks(job, begin * size, group * lanes * size);
      fold_vectors<Format, Op, group>(d, job, begin * size);
    }
  }
  for (; end - begin >= lanes; begin += lanes) fold_vectors<Format, Op, 1>(d, job, begin * size);
  fold_rest<Format, Op>(d, job, begin, end);
}

/// The contract of kernels::Fold, except that integers are neither scaled nor divided.
template <class Format, class Op>
HWY_NOINLINE void fold_general(Sinks sinks, Sources sources, std::size_t count,
                               const FoldModifiers& modifiers) {
  using D = hn::ScalableTag<typename Format::Lane>;
  constexpr std::size_t size = sizeof(typename Format::Stored);
  GeneralJob<typename Format::Lane> job(sinks, sources, modifiers);
  std::size_t begin = 0;
  std::size_t end = job.align_streams(hn::MaxLanes(D()) * size, size, count);
  if (end == 0) end = count;
  for (; begin != count; begin = std::exchange(end, count)) fold_range<Format, Op>(job, begin, end);
  if (job.streams_any()) hwy::FlushStream();
}

/// Two sources, one or two sinks, no modifiers.
template <class Format, class Op>
HWY_NOINLINE void fold_two(Sinks sinks, Sources sources, std::size_t count, const FoldModifiers& modifiers) {
  const std::uint64_t shared = modifiers.shared_sinks;
  if (sinks.size() == 1) return fold_range<Format, Op>(PlainJob<1>(sinks, sources, shared), 0, count);
  fold_range<Format, Op>(PlainJob<2>(sinks, sources, shared), 0, count);
}

/// What is common enough to have code of its own.
template <class Format, class Op>
constexpr bool is_common() {
  return std::is_same_v<Op, Sum> && unroll<Format>() > 1;
}

/// A kernels::Fold: the usual cases are told apart here, `kGeneral` does the others.
template <class Format, class Op, Fold kGeneral = &fold_general<Format, Op>>
void fold_elements(Sinks sinks, Sources sources, std::size_t count, const FoldModifiers& modifiers) {
  if constexpr (is_common<Format, Op>()) {
    const bool plain = modifiers.streaming_sinks == 0 && !does_arithmetic(modifiers, 2);
    if (plain && sources.size() == 2 && sinks.size() <= 2) {
      return fold_two<Format, Op>(sinks, sources, count, modifiers);
    }
  }
  if (sources.size() == 1 && !does_arithmetic(modifiers, 1)) {
    return copy(sinks, sources[0], count * sizeof(typename Format::Stored), modifiers);
  }
  kGeneral(sinks, sources, count, modifiers);
}

template <class Format>
Fold floats_by_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::product:
      return &fold_elements<Format, Product>;
    case ReduceOp::min:
      return &fold_elements<Format, Minimum>;
    case ReduceOp::max:
      return &fold_elements<Format, Maximum>;
    default:
      return &fold_elements<Format, Sum>;
  }
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
