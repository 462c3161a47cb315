/// \file
/// Inputs whose results are known exactly, so that every check is equality of bytes.
///
/// Reductions get integers so small that every partial result is exact in the type, fp8 included, whatever
/// the order: only an average is rounded, once. Data that is only moved gets arbitrary bytes. Values repeat
/// with a prime period, so that filling and checking run at the speed of memory and no power of two aligns
/// with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "perf/benchmark.hpp"
#include "perf/reduction.hpp"

namespace tutti::perf {

class Pattern {
 public:
  /// `reduction`: none for operations that only move data. Patterns of different `seed` differ.
  Pattern(DataType type, std::optional<Reduction> reduction, int ranks, std::uint64_t seed);

  /// Writes the parts into `buffer`, which starts at element 0.
  void fill(std::byte* buffer, std::span<const Part> parts) const;
  /// Elements of the parts that are not what they should be.
  [[nodiscard]] std::uint64_t count_wrong(const std::byte* buffer, std::span<const Part> parts) const;

 private:
  [[nodiscard]] std::vector<std::byte> period_of(const Part& part) const;
  [[nodiscard]] std::uint64_t hash(Rank rank, int block, std::size_t index) const;
  [[nodiscard]] std::int64_t contribution(Rank rank, int block, std::size_t index) const;
  [[nodiscard]] std::int64_t fold(int block, std::size_t index) const;

  DataType type_;
  std::optional<Reduction> reduction_;
  int ranks_;
  std::uint64_t seed_;
};

}  // namespace tutti::perf
