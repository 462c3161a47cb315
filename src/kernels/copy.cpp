#include "kernels/targets.hpp"

#include "base/prefetch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/copy.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/fold-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

/// Whole groups of vectors only; returns the bytes copied. The sink is often a slot that another core read
/// last, so that waiting for the right to write its lines is most of the time.
std::size_t copy_groups_here(std::byte* sink, const std::byte* source, std::size_t bytes) {
  using Format = Native<std::uint8_t>;
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t group = unroll<Format>() * hn::Lanes(d);
  const std::array<std::byte*, 1> sinks{sink};
  const std::array<const std::byte*, 1> sources{source};
  const GeneralJob<std::uint8_t> job(sinks, sources, {.shared_sinks = 1});
  std::size_t done = 0;
  for (; bytes - done >= group; done += group) {
    prefetch_shared_sinks(job, done, group);
    fold_vectors<Format, Sum, unroll<Format>()>(d, job, done);
  }
  return done;
}

/// A fold of one source: the operation is never applied.
void copy_general_here(Sinks sinks, const std::byte* source, std::size_t bytes, const FoldModifiers& hints) {
  fold_general<Native<std::uint8_t>, Sum>(
      sinks, {&source, 1}, bytes,
      {.streaming_sinks = hints.streaming_sinks, .shared_sinks = hints.shared_sinks});
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cstring>
#include <vector>

namespace tutti::kernels {

namespace {

bool waits_for_itself(const std::byte* sink, const std::byte* source) {
  constexpr std::uintptr_t page = 4096, reach = 32;
  const auto ahead = reinterpret_cast<std::uintptr_t>(sink) - reinterpret_cast<std::uintptr_t>(source);
  return ahead % page - 1 < reach - 1;
}

}  // namespace

HWY_EXPORT(copy_groups_here);
HWY_EXPORT(copy_general_here);

bool block_copies_win() noexcept {
#if HWY_ARCH_X86
  static const bool amd = (__builtin_cpu_init(), __builtin_cpu_is("amd") != 0);
  return amd;
#else
  return false;
#endif
}

void prepare() {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  (void)block_copies_win();
}

void copy_block(std::byte* sink, const std::byte* source, std::size_t bytes) {
  // Shorter ones memcpy does by vectors, and those that no core's cache holds, too.
  constexpr std::size_t least = std::size_t{1} << 10, most = std::size_t{1} << 20;
  const bool by_vectors = bytes >= least && bytes <= most && waits_for_itself(sink, source);
  const std::size_t done = by_vectors ? HWY_DYNAMIC_DISPATCH(copy_groups_here)(sink, source, bytes) : 0;
  if (done != bytes) std::memcpy(sink + done, source + done, bytes - done);
}

void copy(std::span<std::byte* const> sinks, const std::byte* source, std::size_t bytes,
          const FoldModifiers& hints, bool block_copies) {
  if (block_copies && hints.streaming_sinks == 0) {
    for (std::byte* sink : sinks)
      if (sink != source) copy_block(sink, source, bytes);
    return;
  }
  if (sinks.size() > 1 || (hints.streaming_sinks & 1) != 0) {
    return HWY_DYNAMIC_DISPATCH(copy_general_here)(sinks, source, bytes, hints);
  }
  if (sinks[0] == source) return;
  // Less is over before a prefetch helps; more is not a slot, and memcpy goes past the caches where that is
  // better.
  constexpr std::size_t slot_like_least = std::size_t{4} << 10;
  constexpr std::size_t slot_like_most = std::size_t{128} << 10;
  const bool slot_like = bytes >= slot_like_least && bytes <= slot_like_most;
  const std::size_t done = slot_like ? HWY_DYNAMIC_DISPATCH(copy_groups_here)(sinks[0], source, bytes) : 0;
  copy_block(sinks[0] + done, source + done, bytes - done);
}

void fold_to_all(Fold fold, std::size_t element_bytes, std::span<std::byte* const> sinks,
                 std::span<const std::byte* const> sources, std::size_t count, const FoldModifiers& hinted,
                 bool block_copies) {
  if (!block_copies) return fold(sinks, sources, count, hinted);
  FoldModifiers modifiers = hinted;
  modifiers.shared_sinks = 0;
  const std::size_t bytes = count * element_bytes;
  constexpr std::size_t slot_like_least = 2048;
  if (modifiers.streaming_sinks != 0 || bytes < slot_like_least || (sinks.size() == 1 && sources.size() > 1))
    return fold(sinks, sources, count, modifiers);
  if (sources.size() == 1 && modifiers.scaled_sources == 0 && modifiers.divisor == 1)
    return copy(sinks, sources[0], bytes, {}, true);
  const std::size_t piece = std::size_t{8192} / element_bytes;
  constexpr std::size_t most_sources = 64;
  if (sources.size() > most_sources) return fold(sinks, sources, count, modifiers);
  std::array<const std::byte*, most_sources> storage;
  const std::span from(storage.data(), sources.size());
  std::copy(sources.begin(), sources.end(), from.begin());
  for (std::size_t done = 0; done < count; done += piece) {
    const std::size_t now = std::min(piece, count - done);
    std::byte* const first = sinks[0] + done * element_bytes;
    fold({&first, 1}, from, now, modifiers);
    for (std::byte* sink : sinks.subspan(1))
      copy_block(sink + done * element_bytes, first, now * element_bytes);
    for (const std::byte*& source : from) source += now * element_bytes;
  }
}

}  // namespace tutti::kernels
#endif
