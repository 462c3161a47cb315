/// \file
/// Every operation, once: blocking on a Communicator, returning a Work from `Communicator::async()`,
/// collected by a Group.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include <tutti/call.hpp>
#include <tutti/error.hpp>

namespace tutti {

/// The operations, in terms of `Derived::submit(const Call&) -> Result`, `Derived::rank()` and
/// `Derived::size()`.
///
/// All ranks of a communicator call the same operations in the same order with the same counts, types,
/// reductions and roots (send and receive excepted). A call that differs is found out and reported on all
/// ranks. n is `size()`. Each operation takes spans, or pointers with counts in elements and a DataType:
/// `count` is that of the block that an operation speaks of, the buffers of n blocks hold n * `count`.
///
/// In place: pass the same memory for input and output as each operation says. Other overlaps are refused.
/// Errors, before anything is sent: Error(invalid_argument). While running: Error(mismatch, timeout,
/// peer_lost, aborted); the communicator is then unusable but for `abort` and destruction. Counts may exceed
/// 2^31 and may be 0. Thread safety: one thread at a time on one communicator.
template <class Derived, class Result>
class Operations {
 public:
  /// out[i] = fold over all ranks of in[i]. In place: `in == out`. Bitwise equal on all ranks and from run to
  /// run.
  template <Element T>
  Result all_reduce(std::span<const T> in, std::span<T> out, Reduction op = ReduceOp::sum) {
    same(in.size(), out.size(), "all_reduce");
    return all_reduce(in.data(), out.data(), in.size(), data_type_of<T>, op);
  }
  template <Element T>
  Result all_reduce(std::span<T> in_out, Reduction op = ReduceOp::sum) {
    return all_reduce(in_out.data(), in_out.data(), in_out.size(), data_type_of<T>, op);
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

  /// As all_reduce, with the result on `root` only. `out` of the others is not touched and may be empty.
  template <Element T>
  Result reduce(std::span<const T> in, std::span<T> out, Rank root, Reduction op = ReduceOp::sum) {
    if (is(root)) same(in.size(), out.size(), "reduce");
    return reduce(in.data(), out.data(), in.size(), data_type_of<T>, root, op);
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

  /// Rank r gets elements [r * count, (r + 1) * count) of the fold of all inputs of n * count elements. In
  /// place: `out == in + rank * count`.
  template <Element T>
  Result reduce_scatter(std::span<const T> in, std::span<T> out, Reduction op = ReduceOp::sum) {
    same(in.size(), out.size() * ranks(), "reduce_scatter");
    return reduce_scatter(in.data(), out.data(), out.size(), data_type_of<T>, op);
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
  template <Element T>
  Result all_gather(std::span<const T> in, std::span<T> out) {
    same(out.size(), in.size() * ranks(), "all_gather");
    return all_gather(in.data(), out.data(), in.size(), data_type_of<T>);
  }
  Result all_gather(const void* in, void* out, std::size_t count, DataType type) {
    return call({.operation = Operation::all_gather, .type = type, .in = in, .out = out, .count = count});
  }

  /// `out` of every rank gets `in` of `root`. `in` of the others is not read and may be empty. In place: `in
  /// == out`.
  template <Element T>
  Result broadcast(std::span<const T> in, std::span<T> out, Rank root) {
    if (is(root)) same(in.size(), out.size(), "broadcast");
    return broadcast(in.data(), out.data(), out.size(), data_type_of<T>, root);
  }
  template <Element T>
  Result broadcast(std::span<T> in_out, Rank root) {
    return broadcast(in_out.data(), in_out.data(), in_out.size(), data_type_of<T>, root);
  }
  Result broadcast(const void* in, void* out, std::size_t count, DataType type, Rank root) {
    return call({.operation = Operation::broadcast,
                 .type = type,
                 .root = root,
                 .in = in,
                 .out = out,
                 .count = count});
  }

  /// `out` of `root` gets the `count` elements of every rank's `in`, in rank order. In place on the root: as
  /// all_gather.
  template <Element T>
  Result gather(std::span<const T> in, std::span<T> out, Rank root) {
    if (is(root)) same(out.size(), in.size() * ranks(), "gather");
    return gather(in.data(), out.data(), in.size(), data_type_of<T>, root);
  }
  Result gather(const void* in, void* out, std::size_t count, DataType type, Rank root) {
    return call(
        {.operation = Operation::gather, .type = type, .root = root, .in = in, .out = out, .count = count});
  }

  /// Rank r gets elements [r * count, (r + 1) * count) of `in` of `root`. In place on the root: as
  /// reduce_scatter.
  template <Element T>
  Result scatter(std::span<const T> in, std::span<T> out, Rank root) {
    if (is(root)) same(in.size(), out.size() * ranks(), "scatter");
    return scatter(in.data(), out.data(), out.size(), data_type_of<T>, root);
  }
  Result scatter(const void* in, void* out, std::size_t count, DataType type, Rank root) {
    return call(
        {.operation = Operation::scatter, .type = type, .root = root, .in = in, .out = out, .count = count});
  }

  /// Block s of `out` on rank r gets block r of `in` on rank s; blocks of `count` elements. In place: `in ==
  /// out`.
  template <Element T>
  Result all_to_all(std::span<const T> in, std::span<T> out) {
    same(in.size(), out.size(), "all_to_all");
    if (in.size() % ranks() != 0)
      throw Error(ErrorCode::invalid_argument, "all_to_all: the buffers do not divide into one block a rank");
    return all_to_all(in.data(), out.data(), in.size() / ranks(), data_type_of<T>);
  }
  Result all_to_all(const void* in, void* out, std::size_t count, DataType type) {
    return call({.operation = Operation::all_to_all, .type = type, .in = in, .out = out, .count = count});
  }

  /// Returns when all ranks have called it.
  Result barrier() { return call({.operation = Operation::barrier}); }

  /// all_gather with `counts[r]` elements of rank r, placed at `out + displacements[r]` (empty displacements:
  /// packed). All ranks pass the same counts. In place: `in == out + displacements[rank]`.
  template <Element T>
  Result all_gather_v(std::span<const T> in, std::span<T> out, std::span<const std::size_t> counts,
                      std::span<const std::size_t> displacements = {}) {
    if (counts.size() == ranks()) same(in.size(), counts[own()], "all_gather_v");
    detail::require_blocks_within(out.size(), counts, displacements, "all_gather_v, output");
    return all_gather_v(in.data(), out.data(), counts, displacements, data_type_of<T>);
  }
  Result all_gather_v(const void* in, void* out, std::span<const std::size_t> counts,
                      std::span<const std::size_t> displacements, DataType type) {
    return call({.operation = Operation::all_gather_v,
                 .type = type,
                 .in = in,
                 .out = out,
                 .out_counts = counts,
                 .out_displacements = displacements});
  }

  /// reduce_scatter with `counts[r]` elements for rank r, which lie at `in + displacements[r]` (empty:
  /// packed). All ranks pass the same counts. In place: `out == in + displacements[rank]`.
  template <Element T>
  Result reduce_scatter_v(std::span<const T> in, std::span<T> out, std::span<const std::size_t> counts,
                          std::span<const std::size_t> displacements = {}, Reduction op = ReduceOp::sum) {
    if (counts.size() == ranks()) same(counts[own()], out.size(), "reduce_scatter_v");
    detail::require_blocks_within(in.size(), counts, displacements, "reduce_scatter_v, input");
    return reduce_scatter_v(in.data(), out.data(), counts, displacements, data_type_of<T>, op);
  }
  Result reduce_scatter_v(const void* in, void* out, std::span<const std::size_t> counts,
                          std::span<const std::size_t> displacements, DataType type,
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
  /// sends to r must be what r expects from s. Not in place.
  template <Element T>
  Result all_to_all_v(std::span<const T> in, std::span<const std::size_t> in_counts,
                      std::span<const std::size_t> in_displacements, std::span<T> out,
                      std::span<const std::size_t> out_counts,
                      std::span<const std::size_t> out_displacements) {
    detail::require_blocks_within(in.size(), in_counts, in_displacements, "all_to_all_v, input");
    detail::require_blocks_within(out.size(), out_counts, out_displacements, "all_to_all_v, output");
    return all_to_all_v(in.data(), in_counts, in_displacements, out.data(), out_counts, out_displacements,
                        data_type_of<T>);
  }
  Result all_to_all_v(const void* in, std::span<const std::size_t> in_counts,
                      std::span<const std::size_t> in_displacements, void* out,
                      std::span<const std::size_t> out_counts, std::span<const std::size_t> out_displacements,
                      DataType type) {
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
  /// Group.
  template <Element T>
  Result send(std::span<const T> in, Rank peer) {
    return send(in.data(), in.size(), data_type_of<T>, peer);
  }
  Result send(const void* in, std::size_t count, DataType type, Rank peer) {
    return call({.operation = Operation::send, .type = type, .root = peer, .in = in, .count = count});
  }
  /// Receives what `peer` sends: as many elements of the same type.
  template <Element T>
  Result receive(std::span<T> out, Rank peer) {
    return receive(out.data(), out.size(), data_type_of<T>, peer);
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
  static void same(std::size_t a, std::size_t b, const char* operation) {
    if (a != b)
      throw Error(ErrorCode::invalid_argument,
                  std::string(operation) + ": input and output sizes do not fit (" + std::to_string(a) +
                      " and " + std::to_string(b) + " elements)");
  }
};

}  // namespace tutti
