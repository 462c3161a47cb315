#include "communicator/check.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <tutti/error.hpp>

namespace tutti {

void refuse(const Call& call, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, describe(call) + ": " + why);
}

namespace {

std::size_t multiply(const Call& call, std::size_t a, std::size_t b) {
  std::size_t product = 0;
  // Half the address space: displacements and sums stay representable.
  if (__builtin_mul_overflow(a, b, &product) || product > std::numeric_limits<std::size_t>::max() / 2)
    refuse(call, "the size in bytes overflows");
  return product;
}

// Bytes from the start of the buffer to the end of its last block. An empty one is nowhere, wherever it is
// said to be.
std::size_t span_of(const Call& call, std::span<const std::size_t> counts,
                    std::span<const std::size_t> displacements, int size, std::size_t element) {
  if (counts.size() != static_cast<std::size_t>(size))
    refuse(call,
           "needs one count a rank, " + std::to_string(size) + ", not " + std::to_string(counts.size()));
  if (!displacements.empty() && displacements.size() != counts.size())
    refuse(call, "needs as many displacements as counts, or none");
  std::size_t packed = 0, end = 0;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const std::size_t bytes = multiply(call, counts[r], element);
    if (bytes == 0) continue;
    const std::size_t at = displacements.empty() ? packed : multiply(call, displacements[r], element);
    end = std::max(end, at + bytes);
    packed += bytes;
    if (packed > std::numeric_limits<std::size_t>::max() / 2 ||
        end > std::numeric_limits<std::size_t>::max() / 2)
      refuse(call, "the size in bytes overflows");
  }
  return end;
}

// Of blocks that a call writes: else the result would depend on which of them comes last.
void require_apart(const Call& call, std::span<const std::size_t> counts,
                   std::span<const std::size_t> displacements) {
  if (displacements.empty()) return;
  std::size_t end = 0;
  bool in_order = true;  // as they are most often
  for (std::size_t r = 0; r < counts.size() && in_order; ++r) {
    if (counts[r] == 0) continue;
    in_order = displacements[r] >= end;
    end = displacements[r] + counts[r];
  }
  if (in_order) return;
  struct Block {
    std::size_t at, end, rank;
  };
  std::vector<Block> blocks;
  for (std::size_t r = 0; r < counts.size(); ++r)
    if (counts[r] != 0) blocks.push_back({displacements[r], displacements[r] + counts[r], r});
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.at < b.at; });
  const auto found = std::adjacent_find(blocks.begin(), blocks.end(),
                                        [](const Block& a, const Block& b) { return b.at < a.end; });
  if (found != blocks.end())
    refuse(call, "in the output, the blocks of ranks " + std::to_string(found->rank) + " and " +
                     std::to_string(found[1].rank) + " overlap");
}

std::size_t displacement(std::span<const std::size_t> counts, std::span<const std::size_t> displacements,
                         Rank rank) {
  if (counts[static_cast<std::size_t>(rank)] == 0) return 0;
  if (!displacements.empty()) return displacements[static_cast<std::size_t>(rank)];
  std::size_t packed = 0;
  for (Rank r = 0; r < rank; ++r) packed += counts[static_cast<std::size_t>(r)];
  return packed;
}

// In place the result is written over this rank's block of the input, whose other blocks may be read after
// it.
void require_own_apart(const Call& call, Rank rank) {
  if (call.in_displacements.empty()) return;
  const auto begin_of = [&](Rank r) { return call.in_displacements[static_cast<std::size_t>(r)]; };
  const auto count_of = [&](Rank r) { return call.in_counts[static_cast<std::size_t>(r)]; };
  const std::size_t begin = begin_of(rank), end = begin + count_of(rank);
  for (Rank r = 0; r < static_cast<Rank>(call.in_counts.size()); ++r)
    if (r != rank && count_of(r) != 0 && begin_of(r) < end && begin < begin_of(r) + count_of(r))
      refuse(call, "in place, this rank's block must not overlap that of rank " + std::to_string(r));
}

// Further on, counts are what makes a call a v-form.
void require_no_other_counts(const Call& call) {
  const bool both = call.operation == Operation::all_to_all_v;
  if (!call.in_counts.empty() && !both && call.operation != Operation::reduce_scatter_v)
    refuse(call, "takes no in_counts");
  if (!call.out_counts.empty() && !both && call.operation != Operation::all_gather_v)
    refuse(call, "takes no out_counts");
}

// Offset in bytes between input and output when they are in place; negative: the output starts later.
struct Geometry {
  std::size_t in_bytes = 0, out_bytes = 0;
  std::ptrdiff_t input_at = 0;  // in place: in == out + input_at
};

Geometry geometry(const Call& call, Rank rank, int size) {
  const std::size_t element = size_of(call.type);
  const auto n = static_cast<std::size_t>(size), r = static_cast<std::size_t>(rank);
  const auto one = [&] { return multiply(call, call.count, element); };
  const auto all = [&] { return multiply(call, one(), n); };
  const bool root = rank == call.root;
  const auto at = [&](std::size_t bytes) { return static_cast<std::ptrdiff_t>(bytes); };
  switch (call.operation) {
    case Operation::all_reduce:
      return {one(), one(), 0};
    case Operation::reduce:
      return {one(), root ? one() : 0, 0};
    case Operation::broadcast:
      return {root ? one() : 0, one(), 0};
    case Operation::reduce_scatter:
      return {all(), one(), -at(r * one())};
    case Operation::all_gather:
      return {one(), all(), at(r * one())};
    case Operation::gather:
      return {one(), root ? all() : 0, at(r * one())};
    case Operation::scatter:
      return {root ? all() : 0, one(), -at(r * one())};
    case Operation::all_to_all:
      return {all(), all(), 0};
    case Operation::barrier:
      return {};
    case Operation::all_gather_v: {
      const std::size_t out = span_of(call, call.out_counts, call.out_displacements, size, element);
      require_apart(call, call.out_counts, call.out_displacements);
      return {call.out_counts[r] * element, out,
              at(displacement(call.out_counts, call.out_displacements, rank) * element)};
    }
    case Operation::reduce_scatter_v: {
      const std::size_t in = span_of(call, call.in_counts, call.in_displacements, size, element);
      return {in, call.in_counts[r] * element,
              -at(displacement(call.in_counts, call.in_displacements, rank) * element)};
    }
    case Operation::all_to_all_v: {
      const std::size_t in = span_of(call, call.in_counts, call.in_displacements, size, element);
      const std::size_t out = span_of(call, call.out_counts, call.out_displacements, size, element);
      require_apart(call, call.out_counts, call.out_displacements);
      if (call.in_counts[r] != call.out_counts[r])
        refuse(call, "this rank sends itself " + std::to_string(call.in_counts[r]) +
                         " elements and expects " + std::to_string(call.out_counts[r]));
      return {in, out, 0};
    }
    case Operation::send:
      return {one(), 0, 0};
    case Operation::receive:
      return {0, one(), 0};
  }
  return {};
}

}  // namespace

std::size_t size_in_bytes(const Call& call, std::size_t elements) {
  if (size_of(call.type) == 0)
    refuse(call, "unknown data type code " + std::to_string(static_cast<int>(call.type)));
  return multiply(call, elements, size_of(call.type));
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a), second = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes != 0 && b_bytes != 0 && first < second + b_bytes && second < first + a_bytes;
}

Sizes check(const Call& call, Rank rank, int size, Pointers pointers) {
  if (static_cast<int>(call.operation) >= operation_count)
    throw Error(ErrorCode::invalid_argument,
                "unknown operation code " + std::to_string(static_cast<int>(call.operation)));
  static_cast<void>(size_in_bytes(call, 0));
  if (static_cast<int>(call.reduction.op) >= reduce_op_count)
    refuse(call, "unknown reduction code " + std::to_string(static_cast<int>(call.reduction.op)));
  if (call.root < 0 || call.root >= size)
    refuse(call, "rank " + std::to_string(call.root) + " does not exist; ranks are 0 to " +
                     std::to_string(size - 1));
  require_no_other_counts(call);
  const Geometry g = geometry(call, rank, size);
  Sizes sizes{g.in_bytes, g.out_bytes, false};
  const bool no_input = g.in_bytes != 0 && call.in == nullptr;
  const bool no_output = g.out_bytes != 0 && call.out == nullptr;
  if (pointers == Pointers::needed && no_input) refuse(call, "the input pointer is null");
  if (pointers == Pointers::needed && no_output) refuse(call, "the output pointer is null");
  if (g.in_bytes == 0 || g.out_bytes == 0 || no_input || no_output) return sizes;
  const auto in = reinterpret_cast<std::uintptr_t>(call.in), out = reinterpret_cast<std::uintptr_t>(call.out);
  sizes.in_place =
      in == out + static_cast<std::uintptr_t>(g.input_at) && call.operation != Operation::all_to_all_v;
  if (sizes.in_place && call.operation == Operation::reduce_scatter_v) require_own_apart(call, rank);
  if (!sizes.in_place && overlap(call.in, g.in_bytes, call.out, g.out_bytes))
    refuse(call, call.operation == Operation::all_to_all_v
                     ? "input and output overlap"
                     : "input and output overlap, but not as in place needs it");
  return sizes;
}

}  // namespace tutti
