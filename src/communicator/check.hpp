/// \file
/// Bad calls are refused before anything is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>

#include <tutti/call.hpp>

namespace tutti {

/// What a call's buffers look like on this rank.
struct Sizes {
  std::size_t in_bytes = 0, out_bytes = 0;
  bool in_place = false;
};

/// Throws Error(invalid_argument) that names the call.
[[noreturn]] void refuse(const Call& call, const std::string& why);

/// Whether a call is to be made, or only spoken of: its null pointers then stand for memory that overlaps
/// nothing.
enum class Pointers : std::uint8_t { needed, may_be_null };

/// Throws Error(invalid_argument) for null pointers with counts, overlap that is not in place, unknown types
/// and operations, roots out of range, sizes that overflow, count arrays of another length than the number of
/// ranks or that the operation does not take, blocks of an output that overlap each other, a block for the
/// rank itself that it does not expect.
Sizes check(const Call& call, Rank rank, int size, Pointers pointers = Pointers::needed);

/// What so many elements of the call's type take. Throws Error(invalid_argument) for an unknown type, and for
/// more than half the address space: displacements and sums stay representable.
std::size_t size_in_bytes(const Call& call, std::size_t elements);

/// Whether two ranges share a byte.
bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes);

/// Whether calls of it are v-forms.
constexpr bool is_counted(Operation operation) {
  return operation == Operation::all_gather_v || operation == Operation::reduce_scatter_v ||
         operation == Operation::all_to_all_v;
}
inline bool is_point_to_point(const Call& call) {
  return call.operation == Operation::send || call.operation == Operation::receive;
}
/// What a send or receive moves.
inline std::size_t bytes_of_message(const Call& call) { return call.count * size_of(call.type); }
inline bool has_counts(const Call& call) { return !call.in_counts.empty() || !call.out_counts.empty(); }
inline std::size_t sum_of(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

/// True when two calls are the same, buffers and all, but for counts and displacements of v-forms.
inline bool same_but_counts(const Call& call, const Call& before) {
  return call.in == before.in && call.out == before.out && call.count == before.count &&
         call.operation == before.operation && call.type == before.type && call.root == before.root &&
         call.reduction == before.reduction && call.within == before.within;
}

}  // namespace tutti
