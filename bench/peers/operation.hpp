/// \file
/// The operations that are compared: how much each reads and writes, what goes in, and what must come out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

enum class Operation {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  reduce,
  gather,
  scatter,
  barrier,
  ping_pong,  ///< each even rank sends to the next one, which then answers
  shift,      ///< each rank sends to the next one and receives from the one before, at once
  all_gather_v,
  reduce_scatter_v,
  all_to_all_v
};

inline constexpr std::array<std::string_view, 14> operation_names = {
    "all_reduce", "reduce_scatter", "all_gather",       "all_to_all",  "broadcast",
    "reduce",     "gather",         "scatter",          "barrier",     "ping_pong",
    "shift",      "all_gather_v",   "reduce_scatter_v", "all_to_all_v"};

inline std::string_view name(Operation operation) {
  return operation_names.at(static_cast<std::size_t>(operation));
}

inline Operation parse_operation(std::string_view text) {
  for (std::size_t i = 0; i < operation_names.size(); ++i)
    if (operation_names.at(i) == text) return static_cast<Operation>(i);
  throw std::invalid_argument("no operation is called \"" + std::string(text) + "\"");
}

/// Blocks of different lengths, in elements, that lie one after the other.
struct Blocks {
  std::vector<std::size_t> counts, displacements;
};

/// Whether the larger buffer is one block a rank.
inline bool is_of_blocks(Operation operation) {
  return operation != Operation::all_reduce && operation != Operation::reduce &&
         operation != Operation::broadcast && operation != Operation::ping_pong &&
         operation != Operation::shift;
}

/// For libraries that count elements by an int.
inline int int_of(std::size_t elements) {
  if (elements > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw std::invalid_argument(std::to_string(elements) +
                                " elements are more than this library's interface can count");
  return static_cast<int>(elements);
}

/// One call on one rank. Rank 0 is the root of operations that have one.
struct Call {
  Operation operation;
  /// Elements of the larger buffer, as nccl-tests counts: what all_gather and gather receive, what
  /// reduce_scatter and scatter send; of either buffer where they are equal. A multiple of `size` where the
  /// buffer is one block a rank.
  std::size_t total;
  int rank, size;

  [[nodiscard]] bool is_root() const { return rank == 0; }
  [[nodiscard]] std::size_t block() const { return total / static_cast<std::size_t>(size); }
  /// What an operation that is not a v-form is called with.
  [[nodiscard]] std::size_t count() const { return is_of_blocks(operation) ? block() : total; }
  [[nodiscard]] std::size_t bytes() const { return total * sizeof(float); }
  [[nodiscard]] int next() const {
    if (operation == Operation::ping_pong) return rank ^ 1;
    return (rank + 1) % size;
  }
  [[nodiscard]] int previous() const {
    return operation == Operation::ping_pong ? next() : (rank + size - 1) % size;
  }
  /// How v-forms cut `total`: half as much again and half as much in turn, beginning with the rank `first`.
  [[nodiscard]] Blocks uneven(int first) const {
    Blocks blocks;
    std::size_t at = 0;
    for (int i = 0; i < size; ++i) {
      const int r = (first + i) % size;
      const bool unpaired = r == size - 1 && size % 2 == 1;
      const std::size_t half = unpaired ? 0 : block() / 2;
      blocks.counts.push_back(r % 2 == 0 ? block() + half : block() - half);
      blocks.displacements.push_back(at);
      at += blocks.counts.back();
    }
    return blocks;
  }

  /// Elements of this rank's input. Ranks that are not the root have one, too: they rewrite it as the root
  /// does, and so do not spend that time in the operation, waiting.
  [[nodiscard]] std::size_t input() const {
    if (operation == Operation::all_gather_v) return uneven(0).counts[static_cast<std::size_t>(rank)];
    return operation == Operation::all_gather || operation == Operation::gather ? block() : total;
  }
};

/// `bytes` rounded up to whole elements, and to one a rank where the operation moves one block a rank.
/// Throws std::invalid_argument for a ping_pong on an odd number of ranks.
inline Call call_of(Operation operation, std::size_t bytes, int rank, int size) {
  const auto up = [](std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; };
  if (operation == Operation::barrier) return {operation, 0, rank, size};
  if (operation == Operation::ping_pong && size % 2 != 0)
    throw std::invalid_argument("ping_pong is between pairs: not on " + std::to_string(size) + " ranks");
  const std::size_t unit = is_of_blocks(operation) ? static_cast<std::size_t>(size) : 1;
  return {operation, up(up(bytes, sizeof(float)) / sizeof(float), unit), rank, size};
}

/// What all ranks' element `i` have in common: 0 to 7 without a period, so that displaced blocks are noticed.
/// Another `generation` is other data.
inline float common_value(std::size_t i, std::uint32_t generation) {
  return static_cast<float>((static_cast<std::uint32_t>(i) + generation) * 2654435761U >> 29U);
}

/// This rank's input. Small integers: their sums are exact in float32.
inline void fill(const Call& call, float* in, std::uint32_t generation) {
  const auto own = static_cast<float>(call.rank + 1);
  for (std::size_t i = 0, n = call.input(); i < n; ++i) in[i] = common_value(i, generation) + own;
}

/// True when `out[0, count)` is `scale * common_value + offset` of the elements from `first` on.
inline bool equals(const float* out, std::size_t count, std::size_t first, float scale, float offset,
                   std::uint32_t generation) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i)
    wrong += static_cast<std::size_t>(out[i] != scale * common_value(first + i, generation) + offset);
  return wrong == 0;
}

/// `is_right` for v-forms. What i sends to j in an all_to_all_v is block j of uneven(i).
inline bool is_right_uneven(const Call& call, const float* out, std::uint32_t generation) {
  const auto n = static_cast<float>(call.size);
  const auto own = static_cast<std::size_t>(call.rank);
  const Blocks blocks = call.uneven(0);
  if (call.operation == Operation::reduce_scatter_v)
    return equals(out, blocks.counts[own], blocks.displacements[own], n, n * (n + 1) / 2, generation);
  for (int r = 0; r < call.size; ++r) {
    const Blocks sent = call.uneven(r);
    const bool all_gather = call.operation == Operation::all_gather_v;
    const std::size_t count = all_gather ? blocks.counts[static_cast<std::size_t>(r)] : sent.counts[own];
    if (!equals(out, count, all_gather ? 0 : sent.displacements[own], 1, static_cast<float>(r + 1),
                generation))
      return false;
    out += count;
  }
  return true;
}

/// True when `out` is this rank's result for inputs of that generation.
inline bool is_right(const Call& call, const float* out, std::uint32_t generation) {
  const auto n = static_cast<float>(call.size);
  const float sum_of_ranks = n * (n + 1) / 2;
  const std::size_t block = call.block();
  const std::size_t own_block = block * static_cast<std::size_t>(call.rank);
  const auto one_block_a_rank = [&](std::size_t first) {
    for (int r = 0; r < call.size; ++r)
      if (!equals(out + block * static_cast<std::size_t>(r), block, first, 1, static_cast<float>(r + 1),
                  generation))
        return false;
    return true;
  };
  switch (call.operation) {
    case Operation::reduce:
      if (!call.is_root()) return true;
      [[fallthrough]];
    case Operation::all_reduce:
      return equals(out, call.total, 0, n, sum_of_ranks, generation);
    case Operation::reduce_scatter:
      return equals(out, block, own_block, n, sum_of_ranks, generation);
    case Operation::gather:
      if (!call.is_root()) return true;
      [[fallthrough]];
    case Operation::all_gather:
      return one_block_a_rank(0);
    case Operation::all_to_all:
      return one_block_a_rank(own_block);
    case Operation::broadcast:
      if (call.is_root()) return true;  // it has it
      return equals(out, call.total, 0, 1, 1, generation);
    case Operation::scatter:
      return equals(out, block, own_block, 1, 1, generation);
    case Operation::barrier:
      return true;
    case Operation::ping_pong:
    case Operation::shift:
      return equals(out, call.total, 0, 1, static_cast<float>(call.previous() + 1), generation);
    case Operation::all_gather_v:
    case Operation::reduce_scatter_v:
    case Operation::all_to_all_v:
      return is_right_uneven(call, out, generation);
  }
  throw std::logic_error("is_right: an operation outside the enumeration");
}

}  // namespace bench
