/// \file
/// The root mean square norm of one row (Zhang and Sennrich, 2019), by the threads of one block.
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "gpu/device/chunk.hpp"
#include "gpu/device/formats.hpp"
#include "gpu/device/operations.hpp"

namespace tutti::gpu::device {

/// Squares are added up in so many sums, 16 bytes of the row to each in turn, and these in pairs: the result
/// has the same bits for any number of threads.
inline constexpr int partial_sums = 512;

/// out[i] = row[i] / sqrt(mean of row[j]^2 + epsilon) * weight[i], in float32, rounded once.
struct RmsNormRow {
  const std::byte* row = nullptr;
  const std::byte* weight = nullptr;
  std::byte* out = nullptr;  ///< may be `row`
  std::size_t bytes = 0;     ///< of a row
  float epsilon = 0;
};

/// All threads of the block call it. `sums`: partial_sums floats that they share, not used by anybody else.
template <class Format, class Block>
TUTTI_DEVICE void rms_norm(const Block& block, float* sums, const RmsNormRow& norm) {
  using Stored = typename Format::Stored;
  constexpr int vector = 16, count = vector / static_cast<int>(sizeof(Stored));
  const std::size_t chunks = (norm.bytes + vector - 1) / vector;
  const int thread = block.thread(), threads = block.threads();
  for (int p = thread; p < partial_sums; p += threads) {
    float sum = 0;
    for (auto c = static_cast<std::size_t>(p); c < chunks; c += partial_sums) {
      // Bytes behind the row are read as zeros, which add nothing.
      const auto chunk = load_some<vector>(norm.row + c * vector, norm.bytes - c * vector);
      for (int i = 0; i < count; ++i) {
        const float value = Format::decode(element<Stored>(chunk, i));
        sum += value * value;
      }
    }
    sums[p] = sum;
  }
  block.barrier();
  for (int half = partial_sums / 2; half > 0; half /= 2) {
    for (int p = thread; p < half; p += threads) sums[p] += sums[p + half];
    block.barrier();
  }
  const std::size_t elements = norm.bytes / sizeof(Stored);
  const float factor = 1.0F / ::sqrtf(sums[0] / static_cast<float>(elements) + norm.epsilon);
  for (auto c = static_cast<std::size_t>(thread); c < chunks; c += static_cast<std::size_t>(threads)) {
    const std::size_t at = c * vector, valid = norm.bytes - at;
    const auto chunk = load_some<vector>(norm.row + at, valid);
    const auto weights = load_some<vector>(norm.weight + at, valid);
    Chunk<vector> result;
    for (int i = 0; i < count; ++i) {
      const float value = Format::decode(element<Stored>(chunk, i)) * factor;
      set_element(result, i,
                  Format::encode(with_one_nan(value * Format::decode(element<Stored>(weights, i)))));
    }
    store_some<vector>(norm.out + at, result, valid);
  }
}

/// Programs of these have norms.
template <class Format, class Op>
inline constexpr bool can_normalize = std::is_same_v<Op, Sum> &&
                                      (std::is_same_v<Format, Native<float>> ||
                                       std::is_same_v<Format, Float16> || std::is_same_v<Format, BFloat16>);

}  // namespace tutti::gpu::device
