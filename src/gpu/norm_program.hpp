/// \file
/// The program of an all_reduce whose result is added to a residual and normalized, row by row.
#pragma once

#include <cstddef>
#include <vector>

#include <tutti/types.hpp>

#include "gpu/device/arena.hpp"

namespace tutti::gpu {

/// Equal on all ranks, but for `rank`.
struct NormShape {
  Rank rank = 0;
  int ranks = 1;
  std::size_t tokens = 0;     ///< rows
  std::size_t row_bytes = 0;  ///< a multiple of the element's size
  DataType type = DataType::float32;
  int blocks = 1;  ///< most of a launch
  /// Every row is folded by one rank, which sends its sum to the others; else by all of them. Two shots move
  /// 2 (n - 1) / n of the input a rank instead of n - 1 times, but one after the other.
  bool two_shot = false;
};

/// The launch's input is the row's addends, its output the sums with the residual; device::residual_buffer
/// and its likes are the others. A row is one block's work, so that it needs no other block's sums of
/// squares; in messages it is cut to what a slot of the arena holds.
std::vector<std::byte> norm_program(const NormShape& shape, const device::Arena& arena);

}  // namespace tutti::gpu
