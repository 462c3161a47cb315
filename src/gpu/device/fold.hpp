/// \file
/// The one compute kernel of a block: kernels::Fold, with the same bits as result, by all threads of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tutti/types.hpp>

#include "gpu/device/chunk.hpp"
#include "gpu/device/formats.hpp"
#include "gpu/device/operations.hpp"

namespace tutti::gpu::device {

/// The operands of a fold: pointers that all threads of a block read, and what happens to the elements.
struct Fold {
  const std::byte* const* sources = nullptr;
  std::byte* const* sinks = nullptr;
  std::uint32_t source_count = 0, sink_count = 0;
  Modifiers modifiers;

  /// Source `i` is multiplied.
  [[nodiscard]] TUTTI_DEVICE bool scales(std::uint32_t i) const {
    return i < 64 && ((modifiers.scaled_sources >> i) & 1) != 0 && modifiers.factor != 1.0;
  }
  /// One source whose bytes go to the sinks as they are.
  [[nodiscard]] TUTTI_DEVICE bool copies() const {
    return source_count == 1 && modifiers.divisor == 1 && !scales(0);
  }
};

/// The elements of one chunk, while sources are folded into them.
template <class Format, class Op, int kBytes>
struct Accumulators {
  using Value = typename Format::Accumulator;
  using Stored = typename Format::Stored;
  static constexpr int count = kBytes / static_cast<int>(sizeof(Stored));

  TUTTI_DEVICE void add(const Fold& fold, std::uint32_t source, const Chunk<kBytes>& chunk) {
    const bool scales = Op::modifiable && fold.scales(source);
    for (int i = 0; i < count; ++i) {
      Value value = Format::decode(element<Stored>(chunk, i));
      if (scales) value = scaled(value, fold.modifiers);
      values[i] = source == 0 ? value : Op::apply(values[i], value);
    }
  }
  [[nodiscard]] TUTTI_DEVICE Chunk<kBytes> result(const Fold& fold) const {
    Chunk<kBytes> chunk;
    for (int i = 0; i < count; ++i) {
      Value value = values[i];
      if constexpr (Op::modifiable) value = divided(value, fold.modifiers.divisor);
      set_element(chunk, i, Format::encode(with_one_nan(value)));
    }
    return chunk;
  }

  Value values[count]{};
};

/// The largest power of two, at most 16, that divides the differences of all pointers: how many bytes can be
/// moved at once. `head`: bytes before the first such place.
struct Alignment {
  std::size_t bytes = 16, head = 0;

  TUTTI_DEVICE explicit Alignment(const Fold& fold) {
    const auto first = reinterpret_cast<std::uintptr_t>(fold.sinks[0]);
    std::uintptr_t differences = 0;
    for (std::uint32_t i = 0; i < fold.source_count; ++i)
      differences |= reinterpret_cast<std::uintptr_t>(fold.sources[i]) ^ first;
    for (std::uint32_t i = 1; i < fold.sink_count; ++i)
      differences |= reinterpret_cast<std::uintptr_t>(fold.sinks[i]) ^ first;
    while (bytes > 1 && (differences & (bytes - 1)) != 0) bytes /= 2;
    head = (0 - first) & (bytes - 1);
  }
};

/// Bytes [begin, end) in chunks of 16, from addresses that are multiples of 16.
template <class Format, class Op, int kUnroll, class Block>
TUTTI_DEVICE void fold_vectors(const Block& block, const Fold& fold, std::size_t begin, std::size_t end) {
  const std::size_t first = static_cast<std::size_t>(block.thread()) * 16;
  const std::size_t step = static_cast<std::size_t>(block.threads()) * 16;
  // Several vectors in flight hide the latency of memory.
  for (; begin + first + (kUnroll - 1) * step + 16 <= end; begin += kUnroll * step) {
    const std::size_t at = begin + first;
    Accumulators<Format, Op, 16> values[kUnroll];
    for (std::uint32_t s = 0; s < fold.source_count; ++s) {
      Chunk<16> loaded[kUnroll];
      const std::byte* const source = fold.sources[s] + at;
      for (int u = 0; u < kUnroll; ++u)
        loaded[u] = load_chunk<16>(source + static_cast<std::size_t>(u) * step);
      for (int u = 0; u < kUnroll; ++u) values[u].add(fold, s, loaded[u]);
    }
    Chunk<16> results[kUnroll];
    for (int u = 0; u < kUnroll; ++u) results[u] = values[u].result(fold);
    for (std::uint32_t k = 0; k < fold.sink_count; ++k) {
      std::byte* const sink = fold.sinks[k] + at;
      for (int u = 0; u < kUnroll; ++u)
        store_chunk<16>(sink + static_cast<std::size_t>(u) * step, results[u]);
    }
  }
  if constexpr (kUnroll > 1) fold_vectors<Format, Op, 1>(block, fold, begin, end);
}

/// Element by element: `bytes` of them but for `gap` bytes that begin at `gap_begin`.
template <class Format, class Op, class Block>
TUTTI_DEVICE void fold_singly(const Block& block, const Fold& fold, std::size_t bytes, std::size_t gap_begin,
                              std::size_t gap) {
  constexpr int size = sizeof(typename Format::Stored);
  const std::size_t step = static_cast<std::size_t>(block.threads()) * size;
  for (std::size_t i = static_cast<std::size_t>(block.thread()) * size; i + gap < bytes; i += step) {
    const std::size_t at = i < gap_begin ? i : i + gap;
    Accumulators<Format, Op, size> value;
    for (std::uint32_t s = 0; s < fold.source_count; ++s)
      value.add(fold, s, load_chunk<size>(fold.sources[s] + at));
    const auto result = value.result(fold);
    for (std::uint32_t k = 0; k < fold.sink_count; ++k) store_chunk<size>(fold.sinks[k] + at, result);
  }
}

/// All threads of the block call it; there is no barrier in it.
template <class Format, class Op, class Block>
TUTTI_DEVICE_CALL void fold_elements(const Block& block, const Fold& fold, std::size_t bytes) {
  // As many as leave a thread with 64 registers, so that a multiprocessor has room for two blocks.
  constexpr int unroll = std::min(static_cast<int>(sizeof(typename Format::Stored)), 4);
  const Alignment alignment(fold);
  const bool vectors = alignment.bytes == 16 && bytes >= alignment.head;
  const std::size_t head = vectors ? alignment.head : 0;
  const std::size_t body = vectors ? (bytes - head) & ~std::size_t{15} : 0;
  fold_vectors<Format, Op, unroll>(block, fold, head, head + body);
  fold_singly<Format, Op>(block, fold, bytes, head, body);
}

/// Bytes [begin, end) of the one source, `kBytes` at a time.
template <int kBytes, int kUnroll, class Block>
TUTTI_DEVICE void copy_chunks(const Block& block, const Fold& fold, std::size_t begin, std::size_t end) {
  const std::size_t first = static_cast<std::size_t>(block.thread()) * kBytes;
  const std::size_t step = static_cast<std::size_t>(block.threads()) * kBytes;
  const std::byte* const source = fold.sources[0];
  for (; begin + first + (kUnroll - 1) * step + kBytes <= end; begin += kUnroll * step) {
    Chunk<kBytes> loaded[kUnroll];
    for (int u = 0; u < kUnroll; ++u)
      loaded[u] = load_chunk<kBytes>(source + begin + first + static_cast<std::size_t>(u) * step);
    for (std::uint32_t k = 0; k < fold.sink_count; ++k) {
      std::byte* const sink = fold.sinks[k] + begin + first;
      for (int u = 0; u < kUnroll; ++u)
        store_chunk<kBytes>(sink + static_cast<std::size_t>(u) * step, loaded[u]);
    }
  }
  if constexpr (kUnroll > 1) copy_chunks<kBytes, 1>(block, fold, begin, end);
}

/// One source to all sinks, as it is.
template <class Block>
TUTTI_DEVICE_CALL void copy_bytes(const Block& block, const Fold& fold, std::size_t bytes) {
  const Alignment alignment(fold);
  std::size_t head = alignment.bytes < 4 ? bytes : alignment.head;
  if (head > bytes) head = bytes;
  copy_chunks<1, 1>(block, fold, 0, head);
  if (alignment.bytes == 16) {
    const std::size_t body = (bytes - head) & ~std::size_t{15};
    copy_chunks<16, 8>(block, fold, head, head + body);
    head += body;
  } else {
    const std::size_t body = (bytes - head) & ~std::size_t{3};
    copy_chunks<4, 4>(block, fold, head, head + body);
    head += body;
  }
  copy_chunks<1, 1>(block, fold, head, bytes);
}

/// Calls `f.template operator()<Format, Op>()` for a type and operation; `average` is `sum`.
template <class Format, class F>
TUTTI_DEVICE void with_operation(ReduceOp op, const F& f) {
  switch (op) {
    case ReduceOp::product:
      return f.template operator()<Format, Product>();
    case ReduceOp::min:
      return f.template operator()<Format, Minimum>();
    case ReduceOp::max:
      return f.template operator()<Format, Maximum>();
    default:
      return f.template operator()<Format, Sum>();
  }
}
template <class F>
TUTTI_DEVICE void with_format(DataType type, ReduceOp op, const F& f) {
  switch (type) {
    case DataType::int8:
      return with_operation<Native<std::int8_t>>(op, f);
    case DataType::uint8:
      return with_operation<Native<std::uint8_t>>(op, f);
    case DataType::int32:
      return with_operation<Native<std::int32_t>>(op, f);
    case DataType::uint32:
      return with_operation<Native<std::uint32_t>>(op, f);
    case DataType::int64:
      return with_operation<Native<std::int64_t>>(op, f);
    case DataType::uint64:
      return with_operation<Native<std::uint64_t>>(op, f);
    case DataType::float16:
      return with_operation<Float16>(op, f);
    case DataType::bfloat16:
      return with_operation<BFloat16>(op, f);
    case DataType::float32:
      return with_operation<Native<float>>(op, f);
    case DataType::float64:
      return with_operation<Native<double>>(op, f);
    case DataType::fp8_e4m3:
      return with_operation<E4M3>(op, f);
    case DataType::fp8_e5m2:
      return with_operation<E5M2>(op, f);
  }
}

/// The fold of `bytes` bytes of elements of `type`, which are aligned as such. Only sums are scaled and
/// divided. A copy takes its bytes from anywhere, whatever the type.
template <class Block>
TUTTI_DEVICE void fold_bytes(const Block& block, const Fold& fold, DataType type, ReduceOp op,
                             std::size_t bytes) {
  if (fold.copies()) return copy_bytes(block, fold, bytes);
  with_format(type, op, [&]<class Format, class Op>() { fold_elements<Format, Op>(block, fold, bytes); });
}

}  // namespace tutti::gpu::device
