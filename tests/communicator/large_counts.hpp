/// \file
/// Calls with more than 2^31 elements, of which nobody has the memory.
#pragma once

#include <cstddef>
#include <vector>

#include <tutti/call.hpp>

namespace tutti::test {

inline constexpr int large_ranks = 4;
inline constexpr std::size_t large_counts[] = {(std::size_t{1} << 31U) + 3, std::size_t{1} << 33U};

/// Nobody reads or writes there.
inline std::byte* far_away(std::size_t at) { return reinterpret_cast<std::byte*>(at); }
inline std::byte* const large_in = far_away(std::size_t{1} << 40U);
inline std::byte* const large_out = far_away(std::size_t{1} << 50U);

/// `counts` are of v-forms: r * 2^31 + count for rank r.
struct LargeCall {
  LargeCall(Operation operation, std::size_t count, Rank root = 1) {
    call = {.operation = operation,
            .type = DataType::float32,
            .root = root,
            .in = large_in,
            .out = large_out,
            .count = count};
    for (std::size_t r = 0; r < large_ranks; ++r) counts.push_back((r << 31U) + count);
    if (operation == Operation::all_gather_v || operation == Operation::all_to_all_v)
      call.out_counts = counts;
    if (operation == Operation::reduce_scatter_v || operation == Operation::all_to_all_v)
      call.in_counts = counts;
    if (call.in_counts.data() != nullptr || call.out_counts.data() != nullptr) call.count = 0;
  }
  LargeCall(const LargeCall&) = delete;
  std::vector<std::size_t> counts;
  Call call;
};

}  // namespace tutti::test
