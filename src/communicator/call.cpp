#include <tutti/call.hpp>

#include <algorithm>

#include <tutti/error.hpp>

#include "communicator/check.hpp"

namespace tutti {

std::string_view name(Operation operation) noexcept {
  switch (operation) {
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::reduce:
      return "reduce";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::all_gather:
      return "all_gather";
    case Operation::broadcast:
      return "broadcast";
    case Operation::gather:
      return "gather";
    case Operation::scatter:
      return "scatter";
    case Operation::all_to_all:
      return "all_to_all";
    case Operation::barrier:
      return "barrier";
    case Operation::all_gather_v:
      return "all_gather_v";
    case Operation::reduce_scatter_v:
      return "reduce_scatter_v";
    case Operation::all_to_all_v:
      return "all_to_all_v";
    case Operation::send:
      return "send";
    case Operation::receive:
      return "receive";
  }
  return "invalid";
}

namespace {

std::string_view name(Within within) {
  switch (within) {
    case Within::nothing:
      break;
    case Within::split:
      return "split()";
    case Within::duplicate:
      return "duplicate()";
    case Within::allocate:
      return "allocate()";
    case Within::register_memory:
      return "register_memory()";
    case Within::gpu:
      return "making a Gpu";
    case Within::gpu_end:
      return "destroying a Gpu";
    case Within::gpu_allocate:
      return "Gpu::allocate()";
    case Within::gpu_register_memory:
      return "Gpu::register_memory()";
    case Within::window:
      return "making a window";
    case Within::predict:
      return "predict()";
    case Within::meeting:
      return "split(), duplicate(), predict(), or making a window, a Gpu or memory of one";
  }
  return "invalid";
}

/// The first of them; of many the sum, too, which mostly shows that those behind differ.
std::string list(std::span<const std::size_t> counts) {
  constexpr std::size_t most = 8;
  std::string text;
  for (const std::size_t count : counts.first(std::min(counts.size(), most)))
    text += (text.empty() ? "" : ", ") + std::to_string(count);
  if (counts.size() <= most) return text;
  return text + ", ... in all " + std::to_string(sum_of(counts));
}

std::string elements(const Call& call) {
  if (call.operation == Operation::all_to_all_v)
    return "sends " + list(call.in_counts) +
           (call.out_counts.empty() ? "" : ", receives " + list(call.out_counts));
  if (!call.in_counts.empty()) return list(call.in_counts);
  return call.out_counts.empty() ? std::to_string(call.count) : list(call.out_counts);
}

}  // namespace

std::string describe(const Call& call) {
  if (call.within != Within::nothing) return std::string(name(call.within));
  std::string text(name(call.operation));
  if (call.operation == Operation::barrier) return text + "()";
  text += "(" + elements(call) + " x " + std::string(name(call.type));
  switch (call.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
      text += ", " + std::string(name(call.reduction.op));
      break;
    default:
      break;
  }
  switch (call.operation) {
    case Operation::reduce:
    case Operation::broadcast:
    case Operation::gather:
    case Operation::scatter:
      text += ", root " + std::to_string(call.root);
      break;
    case Operation::send:
      text += ", to rank " + std::to_string(call.root);
      break;
    case Operation::receive:
      text += ", from rank " + std::to_string(call.root);
      break;
    default:
      break;
  }
  return text + ")";
}

namespace detail {

void require_blocks_within(std::size_t elements, std::size_t ranks, std::span<const std::size_t> counts,
                           std::span<const std::size_t> displacements, std::string_view what) {
  if (counts.size() != ranks || (!displacements.empty() && displacements.size() != ranks)) return;
  std::size_t packed = 0;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const std::size_t at = displacements.empty() ? packed : displacements[r];
    if (counts[r] != 0 && (at > elements || counts[r] > elements - at))
      throw Error(ErrorCode::invalid_argument,
                  std::string(what) + ": the block of rank " + std::to_string(r) + ", " +
                      std::to_string(counts[r]) + " elements at " + std::to_string(at) +
                      ", ends past the buffer of " + std::to_string(elements) + " elements");
    packed += counts[r];
  }
}

void CallList::add(const Call& call) {
  if (calls_.empty()) calls_.reserve(4);
  Call& kept = calls_.emplace_back(call);
  if (call.in_counts.size() + call.in_displacements.size() + call.out_counts.size() +
          call.out_displacements.size() ==
      0)
    return;
  for (auto* part : {&kept.in_counts, &kept.in_displacements, &kept.out_counts, &kept.out_displacements})
    if (!part->empty()) *part = counts_.emplace_back(part->begin(), part->end());
}

}  // namespace detail

}  // namespace tutti
