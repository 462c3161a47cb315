/// \file
/// One call of an operation, before anything is done about it: what `Operations` builds and a communicator
/// runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/schedule.hpp>
#include <tutti/types.hpp>

namespace tutti {

/// Everything that can be called on a communicator.
enum class Operation : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  gather,
  scatter,
  all_to_all,
  barrier,
  all_gather_v,
  reduce_scatter_v,
  all_to_all_v,
  send,
  receive
};
inline constexpr int operation_count = 14;  ///< of them
/// The name as written in this header; "invalid" outside the enumeration. Never throws.
std::string_view name(Operation operation) noexcept;

/// Which call of the caller's this one is a step of, if it is one. `gpu`, `gpu_end`: a Gpu that begins or
/// ends. `meeting`: sends and receives by which ranks make a communicator, a window, a Gpu or memory of one,
/// or tell each other of their machines; they keep an order of their own, apart from the caller's.
enum class Within : std::uint8_t {
  nothing,
  split,
  duplicate,
  allocate,
  register_memory,
  gpu,
  gpu_end,
  gpu_allocate,
  gpu_register_memory,
  window,
  predict,
  meeting
};

/// Arguments of a call. Counts and displacements are in elements.
struct Call {
  Operation operation = Operation::barrier;
  DataType type = DataType::uint8;
  Reduction reduction = ReduceOp::sum;
  Rank root = 0;  ///< root, or the peer of send and receive; else 0
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;  ///< elements of the buffer that is not `size()` times larger; of v-forms 0
  std::span<const std::size_t> in_counts{}, in_displacements{};    ///< v-forms, one entry a rank
  std::span<const std::size_t> out_counts{}, out_displacements{};  ///< likewise
  Within within = Within::nothing;  ///< tells the library's own calls from the caller's
};

/// "all_reduce(1024 x float32, sum)", for messages; of a step what it is a step of, "split()".
std::string describe(const Call& call);

namespace detail {

/// Throws Error(invalid_argument) when blocks of `counts` elements at `displacements` (empty: packed) end
/// past a span of `elements`. Other numbers of counts than `ranks`, and displacements that do not fit to
/// them, are left to the call.
void require_blocks_within(std::size_t elements, std::size_t ranks, std::span<const std::size_t> counts,
                           std::span<const std::size_t> displacements, std::string_view what);

/// Calls that wait to be started, with copies of their counts and displacements, to which their spans lead:
/// hence it moves, and cannot be copied.
class CallList {
 public:
  CallList() = default;
  CallList(CallList&&) = default;
  CallList& operator=(CallList&&) = default;
  CallList(const CallList&) = delete;
  CallList& operator=(const CallList&) = delete;
  ~CallList() = default;
  void add(const Call& call);
  [[nodiscard]] std::span<const Call> calls() const noexcept { return calls_; }

 private:
  std::vector<Call> calls_;
  std::vector<std::vector<std::size_t>> counts_;
};

}  // namespace detail

}  // namespace tutti
