#include <utility>

#include "communicator/plan.hpp"

namespace tutti {

std::optional<Collective> collective_of(Operation operation) {
  switch (operation) {
    case Operation::all_gather_v:
      return Collective::all_gather;
    case Operation::reduce_scatter_v:
      return Collective::reduce_scatter;
    case Operation::all_to_all_v:
      return Collective::all_to_all;
    case Operation::send:
    case Operation::receive:
      return std::nullopt;
    default:
      return static_cast<Collective>(operation);
  }
}

namespace {

using execution::equal_blocks;
using Extents = std::vector<execution::Shape::Extent>;

Extents blocks(std::span<const std::size_t> counts, std::span<const std::size_t> displacements,
               std::size_t element) {
  Extents extents;
  extents.reserve(counts.size());
  std::size_t packed = 0;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const std::size_t at = displacements.empty() ? packed : displacements[r];
    extents.push_back({counts[r] == 0 ? 0 : at * element, counts[r] * element});
    packed += counts[r];
  }
  return extents;
}

}  // namespace

execution::Shape shape_of(const Call& call, Rank rank, int size) {
  execution::Shape shape;
  const std::size_t element = size_of(call.type), bytes = call.count * element;
  switch (call.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::broadcast:
    case Operation::barrier:
      shape.divisible = true;
      shape.total = bytes;
      break;
    case Operation::reduce_scatter:
    case Operation::scatter:
      shape.input = equal_blocks(bytes, size);
      shape.output = equal_blocks(bytes, 1);
      break;
    case Operation::all_gather:
    case Operation::gather:
      shape.input = equal_blocks(bytes, 1);
      shape.output = equal_blocks(bytes, size);
      break;
    case Operation::all_to_all:
      shape.input = shape.output = equal_blocks(bytes, size);
      break;
    case Operation::all_gather_v:
      shape.uneven = true;
      shape.output = blocks(call.out_counts, call.out_displacements, element);
      shape.input = {{0, shape.output[static_cast<std::size_t>(rank)].bytes}};
      break;
    case Operation::reduce_scatter_v:
      shape.uneven = true;
      shape.input = blocks(call.in_counts, call.in_displacements, element);
      shape.output = {{0, shape.input[static_cast<std::size_t>(rank)].bytes}};
      break;
    case Operation::all_to_all_v:
      shape.uneven = shape.private_sizes = true;
      shape.input = blocks(call.in_counts, call.in_displacements, element);
      shape.output = blocks(call.out_counts, call.out_displacements, element);
      break;
    case Operation::send:
    case Operation::receive:
      break;
  }
  return shape;
}

std::vector<execution::Shape::Extent> read_of_input(const Call& call, const Sizes& sizes, Rank rank,
                                                    int size) {
  if (sizes.in_bytes == 0) return {};
  if (!has_counts(call)) return {{0, sizes.in_bytes}};
  const execution::Shape shape = shape_of(call, rank, size);
  Extents parts;
  for (const auto& block : shape.input) {
    if (block.bytes == 0) continue;
    if (!parts.empty() && parts.back().offset + parts.back().bytes == block.offset)
      parts.back().bytes += block.bytes;
    else
      parts.push_back(block);
  }
  return parts;
}

void close_gaps(execution::Shape& shape) {
  std::size_t at = 0;
  for (auto& block : shape.input) block.offset = std::exchange(at, at + block.bytes);
}

}  // namespace tutti
