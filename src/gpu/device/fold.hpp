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
  ReduceOp op = ReduceOp::sum;
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

/// Has decode_two and encode_two.
template <class Format>
concept GoesByTwo = requires {
  &Format::encode_two;
};

/// The elements of one chunk, while sources are folded into them.
template <class Format, class Op, int kBytes>
struct Accumulators {
  using Value = typename Format::Accumulator;
  using Stored = typename Format::Stored;
  static constexpr int count = kBytes / static_cast<int>(sizeof(Stored));

  TUTTI_DEVICE void add(const Fold& fold, std::uint32_t source, const Chunk<kBytes>& chunk) {
    const bool scales = Op::modifiable && fold.scales(source);
    Value decoded[count];
    TUTTI_UNROLL
    for (int i = 0; i < count; ++i) {
      if constexpr (GoesByTwo<Format> && count % 2 == 0) {
        if (i % 2 == 0) Format::decode_two(element<std::uint16_t>(chunk, i / 2), decoded[i], decoded[i + 1]);
      } else {
        decoded[i] = Format::decode(element<Stored>(chunk, i));
      }
    }
    TUTTI_UNROLL
    for (int i = 0; i < count; ++i) {
      Value value = decoded[i];
      if (scales) value = scaled(value, fold.modifiers);
      values[i] = source == 0 ? value : Op::apply(fold.op, values[i], value);
    }
  }
  [[nodiscard]] TUTTI_DEVICE Chunk<kBytes> result(const Fold& fold) {
    if constexpr (Op::modifiable) {
      if (fold.modifiers.divisor != 1) {
        TUTTI_UNROLL
        for (int i = 0; i < count; ++i) values[i] = quotient(values[i], fold.modifiers.divisor);
      }
    }
    Chunk<kBytes> chunk{};
    TUTTI_UNROLL
    for (int i = 0; i < count; ++i) {
      if constexpr (GoesByTwo<Format> && count % 2 == 0) {
        if (i % 2 == 0) set_element(chunk, i / 2, Format::encode_two(values[i], values[i + 1]));
      } else {
        set_element(chunk, i, Format::encode(with_one_nan(values[i])));
      }
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
TUTTI_DEVICE void fold_elements(const Block& block, const Fold& fold, std::size_t bytes) {
  // As many as fit into the 128 registers of a thread, together with their accumulators.
  constexpr int size = sizeof(typename Format::Stored);
  constexpr int unroll = size == 1 ? 3 : std::min(2 * size, 8);
  const Alignment alignment(fold);
  const bool vectors = alignment.bytes == 16 && bytes >= alignment.head;
  const std::size_t head = vectors ? alignment.head : 0;
  const std::size_t body = vectors ? (bytes - head) & ~std::size_t{15} : 0;
  fold_vectors<Format, Op, unroll>(block, fold, head, head + body);
  fold_singly<Format, Op>(block, fold, bytes, head, body);
}

/// Bytes [begin, end) of one source to all sinks, `kBytes` at a time.
template <int kBytes, int kUnroll, class Block>
TUTTI_DEVICE void copy_chunks(const Block& block, const std::byte* source, std::byte* const* sinks,
                              std::uint32_t sink_count, std::size_t begin, std::size_t end) {
  const std::size_t first = static_cast<std::size_t>(block.thread()) * kBytes;
  const std::size_t step = static_cast<std::size_t>(block.threads()) * kBytes;
  for (; begin + first + (kUnroll - 1) * step + kBytes <= end; begin += kUnroll * step) {
    Chunk<kBytes> loaded[kUnroll];
    for (int u = 0; u < kUnroll; ++u)
      loaded[u] = load_chunk<kBytes>(source + begin + first + static_cast<std::size_t>(u) * step);
    for (std::uint32_t k = 0; k < sink_count; ++k) {
      std::byte* const sink = sinks[k] + begin + first;
      for (int u = 0; u < kUnroll; ++u)
        store_chunk<kBytes>(sink + static_cast<std::size_t>(u) * step, loaded[u]);
    }
  }
  if constexpr (kUnroll > 1) copy_chunks<kBytes, 1>(block, source, sinks, sink_count, begin, end);
}

/// One source to all sinks, as it is.
template <class Block>
TUTTI_DEVICE_CALL void copy_bytes(Block block, const std::byte* source, std::byte* const* sinks,
                                  std::uint32_t sink_count, std::size_t bytes, std::size_t aligned,
                                  std::size_t head) {
  if (aligned < 4) head = bytes;
  if (head > bytes) head = bytes;
  copy_chunks<1, 1>(block, source, sinks, sink_count, 0, head);
  if (aligned == 16) {
    const std::size_t body = (bytes - head) & ~std::size_t{15};
    copy_chunks<16, 8>(block, source, sinks, sink_count, head, head + body);
    head += body;
  } else {
    const std::size_t body = (bytes - head) & ~std::size_t{3};
    copy_chunks<4, 4>(block, source, sinks, sink_count, head, head + body);
    head += body;
  }
  copy_chunks<1, 1>(block, source, sinks, sink_count, head, bytes);
}

/// Calls `f.template operator()<Op>()` for what an operation is to kernels. On the host, as `with_format`.
template <class F>
void with_operation(ReduceOp op, const F& f) {
  if (op == ReduceOp::sum || op == ReduceOp::average) return f.template operator()<Sum>();
  f.template operator()<Other>();
}
/// Calls `f.template operator()<Format>()`.
template <class F>
void with_format(DataType type, const F& f) {
  switch (type) {
    case DataType::int8:
      return f.template operator()<Native<std::int8_t>>();
    case DataType::uint8:
      return f.template operator()<Native<std::uint8_t>>();
    case DataType::int32:
      return f.template operator()<Native<std::int32_t>>();
    case DataType::uint32:
      return f.template operator()<Native<std::uint32_t>>();
    case DataType::int64:
      return f.template operator()<Native<std::int64_t>>();
    case DataType::uint64:
      return f.template operator()<Native<std::uint64_t>>();
    case DataType::float16:
      return f.template operator()<Float16>();
    case DataType::bfloat16:
      return f.template operator()<BFloat16>();
    case DataType::float32:
      return f.template operator()<Native<float>>();
    case DataType::float64:
      return f.template operator()<Native<double>>();
    case DataType::fp8_e4m3:
      return f.template operator()<E4M3>();
    case DataType::fp8_e5m2:
      return f.template operator()<E5M2>();
  }
}

/// The fold of `bytes` bytes of elements, which are aligned as such. Only sums are scaled and divided. A copy
/// takes its bytes from anywhere, whatever the format.
template <class Format, class Op, class Block>
TUTTI_DEVICE void fold_bytes(const Block& block, const Fold& fold, std::size_t bytes) {
  if (fold.copies()) {
    const Alignment alignment(fold);
    return copy_bytes(block, fold.sources[0], fold.sinks, fold.sink_count, bytes, alignment.bytes,
                      alignment.head);
  }
  fold_elements<Format, Op>(block, fold, bytes);
}

}  // namespace tutti::gpu::device
