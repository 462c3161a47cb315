/// \file
/// A copy of a buffer, each element times a factor: what ranks with a factor of their own contribute.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/fold.hpp"

namespace tutti::gpu::device {

struct Scale {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;  ///< may be `from`
  std::size_t bytes = 0;
  double factor = 1.0;
  const std::byte* factor_at = nullptr;  ///< an element that is the factor, read when the kernel runs
  DataType type = DataType::uint8;
};
static_assert(sizeof(Scale) == 48 && offsetof(Scale, factor_at) == 32 && offsetof(Scale, type) == 40);

/// The share of one of `blocks` blocks: whole vectors but for the last.
template <class Format, class Block>
TUTTI_DEVICE void scale(const Block& block, const Scale& scale, int index, int blocks) {
  constexpr std::size_t vector = 16;
  const std::size_t vectors = (scale.bytes + vector - 1) / vector, all = static_cast<std::size_t>(blocks);
  const std::size_t share = (vectors + all - 1) / all * vector;
  const std::size_t begin = share * static_cast<std::size_t>(index);
  if (begin >= scale.bytes) return;
  const std::byte* const source = scale.from + begin;
  std::byte* const sink = scale.to + begin;
  Fold fold{&source, &sink, 1, 1, ReduceOp::sum, {}};
  fold.modifiers.scaled_sources = 1;
  fold.modifiers.factor = scale.factor;
  if (scale.factor_at != nullptr)
    fold.modifiers.factor = static_cast<double>(
        Format::decode(*reinterpret_cast<const typename Format::Stored*>(scale.factor_at)));
  fold_bytes<Format, Sum>(block, fold, share < scale.bytes - begin ? share : scale.bytes - begin);
}

}  // namespace tutti::gpu::device
