/// \file
/// Every operation, once: blocking on a Communicator, returning a Work from `Communicator::async()`,
/// collected by a Group.
#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>

#include <tutti/call.hpp>
#include <tutti/error.hpp>

namespace tutti {

/// Contiguous memory of an element type that knows its length: std::span, std::vector, std::array, a C array,
/// Buffer; of a single value `std::span(&value, 1)`. Not a temporary that owns its memory.
template <class Range>
concept Elements = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::ranges::borrowed_range<Range> && Element<std::ranges::range_value_t<Range>>;

/// Elements that may be written.
template <class Range>
concept WritableElements =
    Elements<Range> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;

/// The type of the elements of a range.
template <Elements Range>
using element_of = std::ranges::range_value_t<Range>;

/// Elements of the type of another range's.
template <class Range, class Other>
concept ElementsLike =
    Elements<Range> && Elements<Other> && std::same_as<element_of<Range>, element_of<Other>>;
template <class Range, class Other>
concept WritableElementsLike = WritableElements<Range> && ElementsLike<Range, Other>;

namespace detail {
/// Integers, but not contiguous std::size_t.
template <class Range>
concept OtherIntegers = std::ranges::input_range<Range> && std::integral<std::ranges::range_value_t<Range>> &&
    !std::convertible_to<Range, std::span<const std::size_t>>;
}  // namespace detail

/// Counts or displacements of a v-form, one a rank, in elements: contiguous memory of std::size_t, such as
/// std::vector<std::size_t>; not numbers in braces.
class PerRank : public std::span<const std::size_t> {
 public:
  using std::span<const std::size_t>::span;
  constexpr PerRank() = default;
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr PerRank(std::span<const std::size_t> all) : std::span<const std::size_t>(all) {}
  /// Does not compile, and says what would.
  template <class Range>
  requires detail::OtherIntegers<const Range&> PerRank(const Range&) {  // NOLINT(google-explicit-constructor)
    static_assert(std::is_void_v<Range>,
                  "counts and displacements are std::size_t: pass "
                  "std::vector<std::size_t>(counts.begin(), counts.end())");
  }
};

/// The operations, in terms of `Derived::submit(const Call&) -> Result`, `Derived::rank()` and
/// `Derived::size()`.
///
/// All ranks of a communicator call the same operations in the same order with the same counts, types,
/// reductions and roots (send and receive excepted). A call that differs is detected and reported on all
/// ranks; on one that had its part of it done without hearing from others, as a broadcast's root may, by a
/// later call. Each operation takes ranges (see Elements; `{}` where it says that one may be empty), or
/// pointers with counts in elements and a DataType. n is `size()`, and `count` that of the block that an
/// operation speaks of: buffers of n blocks hold n * `count`. Counts may exceed 2^31 and may be 0.
///
/// In place: pass the same memory for input and output as each operation says, or once where it takes one
/// buffer. Other overlaps are refused.
/// Errors, before anything is sent: Error(invalid_argument). While running: Error(mismatch, timeout,
/// peer_lost, aborted, system); the communicator is then unusable except for `abort` and destruction. The
/// buffers of a call on host memory that failed are the caller's again; what it was to write may hold
/// anything. Thread safety: one thread at a time on one communicator.
template <class Derived, class Result>
class Operations {
 public:
  /// out[i] = fold over all ranks of in[i]. In place: `in == out`. Bitwise equal on all ranks and from run to
  /// run.
  template <Elements In, WritableElementsLike<In> Out>
  Result all_reduce(In&& in, Out&& out, Reduction op = ReduceOp::sum) {
    const std::span from(in);
    const std::span to(out);
    require(to.size(), from.size(), "all_reduce: the output", as_input);
    return all_reduce(from.data(), to.data(), from.size(), data_type_of<element_of<In>>, op);
  }
  template <WritableElements Range>
  Result all_reduce(Range&& in_out, Reduction op = ReduceOp::sum) {
    const std::span data(in_out);
    return all_reduce(data.data(), data.data(), data.size(), data_type_of<element_of<Range>>, op);
  }
  Result all_reduce(const void* in, void* out, std::size_t count, DataType type,
                    Reduction op = ReduceOp::sum) {
    return call({.operation = Operation::all_reduce,
                 .type = type,
                 .reduction = op,
                 .in = in,
                 .out = out,
                 .count = count});
  }
  Result all_reduce(void* in_out, std::size_t count, DataType type, Reduction op = ReduceOp::sum) {
    return all_reduce(in_out, in_out, count, type, op);
  }

  /// As all_reduce, with the result on `root` only. `out` of the others is not touched and may be empty.
  template <Elements In, WritableElementsLike<In> Out = std::span<element_of<In>>>
  Result reduce(In&& in, Out&& out, Rank root, Reduction op = ReduceOp::sum) {
    const std::span from(in);
    const std::span to(out);
    if (is(root)) require(to.size(), from.size(), "reduce: the output", as_input);
    return reduce(from.data(), to.data(), from.size(), data_type_of<element_of<In>>, root, op);
  }
  template <WritableElements Range>
  Result reduce(Range&& in_out, Rank root, Reduction op = ReduceOp::sum) {
    return reduce(in_out, in_out, root, op);
  }
  Result reduce(const void* in, void* out, std::size_t count, DataType type, Rank root,
                Reduction op = ReduceOp::sum) {
    return call({.operation = Operation::reduce,
                 .type = type,
                 .reduction = op,
                 .root = root,
                 .in = in,
                 .out = out,
                 .count = count});
  }
  Result reduce(void* in_out, std::size_t count, DataType type, Rank root, Reduction op = ReduceOp::sum) {
    return reduce(in_out, in_out, count, type, root, op);
  }

  /// Rank r gets elements [r * count, (r + 1) * count) of the fold of all inputs of n * count elements. In
  /// place: `out == in + rank * count`.
  template <Elements In, WritableElementsLike<In> Out>
  Result reduce_scatter(In&& in, Out&& out, Reduction op = ReduceOp::sum) {
    const std::span from(in);
    const std::span to(out);
    require(from.size(), to.size() * ranks(), "reduce_scatter: the input", an_output_a_rank);
    return reduce_scatter(from.data(), to.data(), to.size(), data_type_of<element_of<In>>, op);
  }
  Result reduce_scatter(const void* in, void* out, std::size_t count, DataType type,
                        Reduction op = ReduceOp::sum) {
    return call({.operation = Operation::reduce_scatter,
                 .type = type,
                 .reduction = op,
                 .in = in,
                 .out = out,
                 .count = count});
  }

  /// `out` gets the `count` elements of every rank's `in`, in rank order. In place: `in == out + rank *
  /// count`.
  template <Elements In, WritableElementsLike<In> Out>
  Result all_gather(In&& in, Out&& out) {
    const std::span from(in);
    const std::span to(out);
    require(to.size(), from.size() * ranks(), "all_gather: the output", an_input_a_rank);
    return all_gather(from.data(), to.data(), from.size(), data_type_of<element_of<In>>);
  }
  Result all_gather(const void* in, void* out, std::size_t count, DataType type) {
    return call({.operation = Operation::all_gather, .type = type, .in = in, .out = out, .count = count});
  }

  /// `out` of every rank gets `in` of `root`. `in` of the others is not read and may be empty. In place: `in
  /// == out`.
  template <WritableElements Out, ElementsLike<Out> In = std::span<const element_of<Out>>>
  Result broadcast(In&& in, Out&& out, Rank root) {
    const std::span from(in);
    const std::span to(out);
    if (is(root)) require(to.size(), from.size(), "broadcast: the output", as_input);
    return broadcast(from.data(), to.data(), to.size(), data_type_of<element_of<In>>, root);
  }
  template <WritableElements Range>
  Result broadcast(Range&& in_out, Rank root) {
    const std::span data(in_out);
    return broadcast(data.data(), data.data(), data.size(), data_type_of<element_of<Range>>, root);
  }
  Result broadcast(const void* in, void* out, std::size_t count, DataType type, Rank root) {
    return call({.operation = Operation::broadcast,
                 .type = type,
                 .root = root,
                 .in = in,
                 .out = out,
                 .count = count});
  }
  Result broadcast(void* in_out, std::size_t count, DataType type, Rank root) {
    return broadcast(in_out, in_out, count, type, root);
  }

  /// `out` of `root` gets the `count` elements of every rank's `in`, in rank order. `out` of the others is
  /// not touched and may be empty. In place on the root: as all_gather.
  template <Elements In, WritableElementsLike<In> Out = std::span<element_of<In>>>
  Result gather(In&& in, Out&& out, Rank root) {
    const std::span from(in);
    const std::span to(out);
    if (is(root)) require(to.size(), from.size() * ranks(), "gather: the output", an_input_a_rank);
    return gather(from.data(), to.data(), from.size(), data_type_of<element_of<In>>, root);
  }
  Result gather(const void* in, void* out, std::size_t count, DataType type, Rank root) {
    return call(
        {.operation = Operation::gather, .type = type, .root = root, .in = in, .out = out, .count = count});
  }

  /// Rank r gets elements [r * count, (r + 1) * count) of `in` of `root`. `in` of the others is not read and
  /// may be empty. In place on the root: as reduce_scatter.
  template <WritableElements Out, ElementsLike<Out> In = std::span<const element_of<Out>>>
  Result scatter(In&& in, Out&& out, Rank root) {
    const std::span from(in);
    const std::span to(out);
    if (is(root)) require(from.size(), to.size() * ranks(), "scatter: the input", an_output_a_rank);
    return scatter(from.data(), to.data(), to.size(), data_type_of<element_of<In>>, root);
  }
  Result scatter(const void* in, void* out, std::size_t count, DataType type, Rank root) {
    return call(
        {.operation = Operation::scatter, .type = type, .root = root, .in = in, .out = out, .count = count});
  }

  /// Block s of `out` on rank r gets block r of `in` on rank s; blocks of `count` elements. In place: `in ==
  /// out`.
  template <Elements In, WritableElementsLike<In> Out>
  Result all_to_all(In&& in, Out&& out) {
    const std::span from(in);
    const std::span to(out);
    require(to.size(), from.size(), "all_to_all: the output", as_input);
    const std::size_t n = ranks();
    if (from.size() % n != 0)
      throw Error(ErrorCode::invalid_argument,
                  "all_to_all: the buffers do not divide into one block a rank (" +
                      std::to_string(from.size()) + " elements, " + std::to_string(n) + " ranks)");
    return all_to_all(from.data(), to.data(), from.size() / n, data_type_of<element_of<In>>);
  }
  template <WritableElements Range>
  Result all_to_all(Range&& in_out) {
    return all_to_all(in_out, in_out);
  }
  Result all_to_all(const void* in, void* out, std::size_t count, DataType type) {
    return call({.operation = Operation::all_to_all, .type = type, .in = in, .out = out, .count = count});
  }
  Result all_to_all(void* in_out, std::size_t count, DataType type) {
    return all_to_all(in_out, in_out, count, type);
  }

  /// Returns when all ranks have called it.
  Result barrier() { return call({.operation = Operation::barrier}); }

  /// all_gather with `counts[r]` elements of rank r, placed at `out + displacements[r]` (empty displacements:
  /// packed). Blocks lie in any order, without overlap. Displacements of empty blocks are ignored, here and
  /// below. All ranks pass the same counts; `in` of one whose count is 0 may be `{}`. In place: `in == out +
  /// displacements[rank]`.
  template <WritableElements Out, ElementsLike<Out> In = std::span<const element_of<Out>>>
  Result all_gather_v(In&& in, Out&& out, PerRank counts, PerRank displacements = {}) {
    const std::span from(in);
    const std::span to(out);
    if (counts.size() == ranks()) require(from.size(), counts[own()], "all_gather_v: the input", as_counted);
    detail::require_blocks_within(to.size(), ranks(), counts, displacements, "all_gather_v, output");
    return all_gather_v(from.data(), to.data(), counts, displacements, data_type_of<element_of<In>>);
  }
  Result all_gather_v(const void* in, void* out, PerRank counts, PerRank displacements, DataType type) {
    return call({.operation = Operation::all_gather_v,
                 .type = type,
                 .in = in,
                 .out = out,
                 .out_counts = counts,
                 .out_displacements = displacements});
  }

  /// reduce_scatter with `counts[r]` elements for rank r, which lie at `in + displacements[r]` (empty:
  /// packed). All ranks pass the same counts; `out` of one whose count is 0 may be `{}`. In place: `out == in
  /// + displacements[rank]`.
  template <Elements In, WritableElementsLike<In> Out = std::span<element_of<In>>>
  Result reduce_scatter_v(In&& in, Out&& out, PerRank counts, PerRank displacements = {},
                          Reduction op = ReduceOp::sum) {
    const std::span from(in);
    const std::span to(out);
    if (counts.size() == ranks())
      require(to.size(), counts[own()], "reduce_scatter_v: the output", as_counted);
    detail::require_blocks_within(from.size(), ranks(), counts, displacements, "reduce_scatter_v, input");
    return reduce_scatter_v(from.data(), to.data(), counts, displacements, data_type_of<element_of<In>>, op);
  }
  Result reduce_scatter_v(const void* in, void* out, PerRank counts, PerRank displacements, DataType type,
                          Reduction op = ReduceOp::sum) {
    return call({.operation = Operation::reduce_scatter_v,
                 .type = type,
                 .reduction = op,
                 .in = in,
                 .out = out,
                 .in_counts = counts,
                 .in_displacements = displacements});
  }

  /// all_to_all with its own count and displacement for every peer (empty displacements: packed). What rank s
  /// sends to r must be what r expects from s. Blocks of the output do not overlap. Not in place. A rank that
  /// sends nothing may pass `{}` for `in`, one that receives nothing for `out`; one that does neither, for
  /// one of them, and std::span<T>() for the other.
  template <Elements In, WritableElementsLike<In> Out = std::span<element_of<In>>>
  Result all_to_all_v(In&& in, PerRank in_counts, PerRank in_displacements, Out&& out, PerRank out_counts,
                      PerRank out_displacements) {
    const std::span from(in);
    const std::span to(out);
    detail::require_blocks_within(from.size(), ranks(), in_counts, in_displacements, "all_to_all_v, input");
    detail::require_blocks_within(to.size(), ranks(), out_counts, out_displacements, "all_to_all_v, output");
    return all_to_all_v(from.data(), in_counts, in_displacements, to.data(), out_counts, out_displacements,
                        data_type_of<element_of<In>>);
  }
  template <WritableElements Out>
  Result all_to_all_v(std::nullptr_t, PerRank in_counts, PerRank in_displacements, Out&& out,
                      PerRank out_counts, PerRank out_displacements) {
    return all_to_all_v(std::span<const element_of<Out>>(), in_counts, in_displacements, out, out_counts,
                        out_displacements);
  }
  Result all_to_all_v(const void* in, PerRank in_counts, PerRank in_displacements, void* out,
                      PerRank out_counts, PerRank out_displacements, DataType type) {
    return call({.operation = Operation::all_to_all_v,
                 .type = type,
                 .in = in,
                 .out = out,
                 .in_counts = in_counts,
                 .in_displacements = in_displacements,
                 .out_counts = out_counts,
                 .out_displacements = out_displacements});
  }

  /// Sends to `peer`, which must receive as many elements of the same type; messages between two ranks match
  /// in order. Blocking calls may wait for the peer: put sends and receives that depend on each other in one
  /// Group. A message to oneself whose other half is not in the same Group is Error(invalid_argument).
  template <Elements Range>
  Result send(Range&& in, Rank peer) {
    const std::span from(in);
    return send(from.data(), from.size(), data_type_of<element_of<Range>>, peer);
  }
  Result send(const void* in, std::size_t count, DataType type, Rank peer) {
    return call({.operation = Operation::send, .type = type, .root = peer, .in = in, .count = count});
  }
  /// Receives what `peer` sends: as many elements of the same type.
  template <WritableElements Range>
  Result receive(Range&& out, Rank peer) {
    const std::span to(out);
    return receive(to.data(), to.size(), data_type_of<element_of<Range>>, peer);
  }
  Result receive(void* out, std::size_t count, DataType type, Rank peer) {
    return call({.operation = Operation::receive, .type = type, .root = peer, .out = out, .count = count});
  }

  /// Any operation, as a value: what all others above come down to.
  Result call(const Call& call) { return self().submit(call); }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
  std::size_t ranks() { return static_cast<std::size_t>(self().size()); }
  std::size_t own() { return static_cast<std::size_t>(self().rank()); }
  bool is(Rank root) { return self().rank() == root; }
  static constexpr const char* as_input = "as many as the input";
  static constexpr const char* an_input_a_rank = "for each rank as many as the input";
  static constexpr const char* an_output_a_rank = "for each rank as many as the output";
  static constexpr const char* as_counted = "this rank's count";
  static void require(std::size_t elements, std::size_t needed, const char* what, const char* why) {
    if (elements != needed)
      throw Error(ErrorCode::invalid_argument, std::string(what) + " has " + std::to_string(elements) +
                                                   " elements, not " + std::to_string(needed) + ": " + why);
  }
};

}  // namespace tutti
