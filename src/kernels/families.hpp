/// \file
/// The kernels of each family of types, and what they share. Private to the kernels.
#pragma once

#include "kernels/fold.hpp"

namespace tutti::kernels {

/// `fold_for` for float32 and float64; for the 8- and 16-bit floats; for the integers.
Fold native_float_fold(DataType type, ReduceOp op);
Fold small_float_fold(DataType type, ReduceOp op);
Fold integer_fold(DataType type, ReduceOp op);

/// The fold of integers with scaled sources or a divisor: one element at a time.
Fold modified_integer_fold(DataType type, ReduceOp op);

/// True if some of `sources` sources is multiplied.
constexpr bool scales(const FoldModifiers& modifiers, std::size_t sources) {
  const std::uint64_t all = sources < 64 ? (std::uint64_t{1} << sources) - 1 : ~std::uint64_t{0};
  return (modifiers.scaled_sources & all) != 0 && modifiers.factor != 1.0;
}

/// True if the elements do not just go through `op`.
constexpr bool does_arithmetic(const FoldModifiers& modifiers, std::size_t sources) {
  return modifiers.divisor != 1 || scales(modifiers, sources);
}

}  // namespace tutti::kernels
