/// \file
/// The one compute kernel: element-wise fold of several sources into several destinations, in one pass over
/// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <tutti/types.hpp>

namespace tutti::kernels {

/// What a fold does besides `op`. Scaling and dividing happen in the accumulator (float32 for 8- and 16-bit
/// floats, the type itself otherwise; integers scale as Reduction says), so the result is rounded once.
struct FoldModifiers {
  std::uint64_t scaled_sources = 0;  ///< bit i: source i times `factor` (sources past 63: never)
  double factor = 1.0;
  std::int64_t divisor = 1;           ///< divides the result, > 0 (1: not); integers truncate toward zero
  std::uint64_t streaming_sinks = 0;  ///< bit i: write sink i past the caches (a hint)
  /// Bit i: another core read sink i last, so its lines are asked for ahead (a hint, of those not streamed).
  std::uint64_t shared_sinks = 0;
  bool operator==(const FoldModifiers&) const = default;
};

/// Folds `sources` from left to right and writes the result to every sink. `count` elements each. No
/// alignment is required. A sink may be exactly one of the sources; partial overlap is not allowed. At least
/// one source and one sink. Bit-exact: the result depends only on the values and the order of sources, never
/// on alignment, count or SIMD width. For 8- and 16-bit floats the accumulator stays float32 across all
/// sources; one rounding at the end. One source without scaling or dividing is a copy of the bytes (NaN
/// payloads kept). Any other NaN result is the positive quiet NaN without payload; -0 is less than +0.
using Fold = void (*)(std::span<std::byte* const> sinks, std::span<const std::byte* const> sources,
                      std::size_t count, const FoldModifiers& modifiers);

/// The kernel for a type and operation, of the widest instruction set that this processor has. `average` is
/// `sum` (the caller sets `divisor` on the completing fold). Cheap (a table look-up), thread safe; never
/// null.
Fold fold_for(DataType type, ReduceOp op) noexcept;

/// True on processors where memory that another core read last is best written by block copies (memcpy, `rep
/// movsb`), which take over whole lines without reading them first: on AMD's, two to three times as fast as
/// stores of vectors. On Intel's, vectors behind a prefetch for writing won. Measured: docs/experiments.md.
bool block_copies_win() noexcept;

/// Whether this processor has stores that go past its caches; otherwise `streaming_sinks` changes nothing.
#if defined(__x86_64__)
inline constexpr bool can_pass_caches = true;
#else
inline constexpr bool can_pass_caches = false;
#endif

/// memcpy, but where that would wait for itself: `rep movsb`, of which memcpy and the kernel make theirs,
/// takes 16 times as long on Zen 3 where the sink begins 1 to 31 bytes further in its page than the source,
/// as a vector from malloc does and a page does not (glibc bug 30994; measured: docs/experiments.md).
void copy_block(std::byte* sink, const std::byte* source, std::size_t bytes);

/// Copies bytes to every sink. Of the modifiers, the hints count.
void copy(std::span<std::byte* const> sinks, const std::byte* source, std::size_t bytes,
          const FoldModifiers& hints, bool block_copies = block_copies_win());

/// `fold` to every sink, with the same result in either way: in one pass, or into the first sink and from
/// there by block copies into the others, a cacheable piece at a time.
void fold_to_all(Fold fold, std::size_t element_bytes, std::span<std::byte* const> sinks,
                 std::span<const std::byte* const> sources, std::size_t count, const FoldModifiers& hinted,
                 bool block_copies = block_copies_win());

/// Asks the processor what it has, once a process: a hundred microseconds in a virtual machine, where every
/// question goes to the hypervisor. Otherwise the first fold or copy does. Thread safe.
void prepare();

/// The instruction set in use: "AVX3", "AVX2", "SSE2", "NEON", ...
const char* instruction_set() noexcept;

}  // namespace tutti::kernels
