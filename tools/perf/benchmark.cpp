#include "perf/benchmark.hpp"

#include <algorithm>
#include <array>

namespace tutti::perf {

namespace {

constexpr std::array<Benchmark, 14> kBenchmarks{{
    {Kind::all_reduce, "all_reduce", true, false, true},
    {Kind::reduce, "reduce", true, true, true},
    {Kind::reduce_scatter, "reduce_scatter", true, false, true},
    {Kind::all_gather, "all_gather", false, false, true},
    {Kind::broadcast, "broadcast", false, true, true},
    {Kind::gather, "gather", false, true, true},
    {Kind::scatter, "scatter", false, true, true},
    {Kind::all_to_all, "all_to_all", false, false, true},
    {Kind::all_gather_v, "all_gather_v", false, false, true},
    {Kind::reduce_scatter_v, "reduce_scatter_v", true, false, true},
    {Kind::all_to_all_v, "all_to_all_v", false, false, false},
    {Kind::sendrecv, "sendrecv", false, false, false},
    {Kind::ping_pong, "ping_pong", false, false, false},
    {Kind::barrier, "barrier", false, false, false},
}};

/// Uneven counts with mean `block`: neighbours differ by `block`, and an odd last one gets `block`.
std::vector<std::size_t> uneven(std::size_t block, int ranks) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(ranks), block);
  for (std::size_t i = 0; i + 1 < counts.size(); i += 2) {
    counts[i] += block / 2;
    counts[i + 1] -= block / 2;
  }
  return counts;
}

/// Blocks of `counts`, one after the other; block i is what `part(i)` says.
template <class PartOf>
std::vector<Part> blocks(const std::vector<std::size_t>& counts, PartOf part) {
  std::vector<Part> parts;
  std::size_t first = 0;
  for (int i = 0; const std::size_t count : counts) {
    auto [source, block] = part(i++);
    parts.push_back({first, count, source, block});
    first += count;
  }
  return parts;
}

struct Origin {
  Rank source;
  int block;
};

Rank ping_pong_peer(Rank rank, int ranks) { return (rank ^ 1) < ranks ? rank ^ 1 : -1; }

}  // namespace

std::span<const Benchmark> benchmarks() { return kBenchmarks; }

const Benchmark* find_benchmark(std::string_view name) {
  const auto* found = std::ranges::find(kBenchmarks, name, &Benchmark::name);
  return found == kBenchmarks.end() ? nullptr : found;
}

double bus_factor(Kind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case Kind::all_reduce:
      return 2 * (n - 1) / n;
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_v:
    case Kind::all_gather:
    case Kind::all_gather_v:
    case Kind::gather:
    case Kind::scatter:
    case Kind::all_to_all:
    case Kind::all_to_all_v:
      return (n - 1) / n;
    case Kind::reduce:
    case Kind::broadcast:
    case Kind::sendrecv:
    case Kind::ping_pong:
      return 1;
    case Kind::barrier:
      return 0;
  }
  return 0;
}

Layout make_layout(Kind kind, std::size_t elements, int ranks, Rank rank, Rank root) {
  const auto n = static_cast<std::size_t>(ranks);
  const auto me = static_cast<std::size_t>(rank);
  const std::size_t block = elements == 0 ? 0 : std::max<std::size_t>(elements / n, 1);
  const std::vector<std::size_t> even(n, block), varied = uneven(block, ranks);
  const std::vector<std::size_t>& counts =
      kind == Kind::all_gather_v || kind == Kind::reduce_scatter_v ? varied : even;
  const auto mine = [&](int i) { return Origin{rank, i}; };
  const auto everyones = [&](int i) { return Origin{i, 0}; };
  const bool is_root = rank == root;

  Layout layout;
  const auto whole = [&](std::size_t in_elements, std::size_t out_elements) {
    layout.in_elements = in_elements;
    layout.out_elements = out_elements;
    layout.count = std::min(in_elements, out_elements);
  };
  switch (kind) {
    case Kind::all_reduce:
    case Kind::reduce:
      whole(elements, elements);
      layout.in = {{0, elements, rank, 0}};
      if (kind == Kind::all_reduce || is_root) layout.out = {{0, elements, reduced, 0}};
      break;
    case Kind::broadcast:
      whole(elements, elements);
      if (is_root) layout.in = {{0, elements, root, 0}};
      layout.out = {{0, elements, root, 0}};
      break;
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_v:
      whole(n * block, counts[me]);
      layout.in = blocks(counts, mine);
      layout.out = {{0, counts[me], reduced, rank}};
      layout.own = layout.in[me].first;
      break;
    case Kind::scatter:
      whole(n * block, block);
      if (is_root) layout.in = blocks(even, mine);
      layout.out = {{0, block, root, rank}};
      layout.own = me * block;
      break;
    case Kind::all_gather:
    case Kind::all_gather_v:
      whole(counts[me], n * block);
      layout.in = {{0, counts[me], rank, 0}};
      layout.out = blocks(counts, everyones);
      layout.own = layout.out[me].first;
      break;
    case Kind::gather:
      whole(block, n * block);
      layout.in = {{0, block, rank, 0}};
      if (is_root) layout.out = blocks(even, everyones);
      layout.own = me * block;
      break;
    case Kind::all_to_all:
      whole(n * block, n * block);
      layout.in = blocks(even, mine);
      layout.out = blocks(even, [&](int i) { return Origin{i, rank}; });
      layout.count = block;
      break;
    case Kind::all_to_all_v:
      whole(n * block, n * block);
      layout.count = block;
      for (std::size_t peer = 0; peer < n; ++peer) {
        layout.in_counts.push_back(varied[(peer + n - me) % n]);
        layout.out_counts.push_back(varied[(me + n - peer) % n]);
      }
      layout.in = blocks(layout.in_counts, mine);
      layout.out = blocks(layout.out_counts, [&](int i) { return Origin{i, rank}; });
      break;
    case Kind::sendrecv:
      whole(elements, elements);
      layout.in = {{0, elements, rank, 0}};
      layout.out = {{0, elements, (rank + ranks - 1) % ranks, 0}};
      break;
    case Kind::ping_pong:
      whole(elements, elements);
      layout.in = {{0, elements, rank, 0}};
      if (const Rank peer = ping_pong_peer(rank, ranks); peer >= 0) layout.out = {{0, elements, peer, 0}};
      break;
    case Kind::barrier:
      break;
  }
  if (kind == Kind::all_gather_v) layout.out_counts = varied;
  if (kind == Kind::reduce_scatter_v) layout.in_counts = varied;
  if (kind == Kind::all_gather_v || kind == Kind::reduce_scatter_v) layout.count = block;
  return layout;
}

Call make_call(Kind kind, const Layout& layout, DataType type, Reduction reduction, Rank root,
               const std::byte* in, std::byte* out) {
  constexpr std::array<Operation, 14> kOperations{
      Operation::all_reduce,   Operation::reduce,           Operation::reduce_scatter, Operation::all_gather,
      Operation::broadcast,    Operation::gather,           Operation::scatter,        Operation::all_to_all,
      Operation::all_gather_v, Operation::reduce_scatter_v, Operation::all_to_all_v,   Operation::send,
      Operation::send,         Operation::barrier};
  return {.operation = kOperations[static_cast<std::size_t>(kind)],
          .type = type,
          .reduction = reduction,
          .root = root,
          .in = in,
          .out = out,
          .count = layout.count,
          .in_counts = layout.in_counts,
          .in_displacements = {},
          .out_counts = layout.out_counts,
          .out_displacements = {}};
}

void run(Communicator& comm, Kind kind, const Layout& layout, DataType type, Reduction reduction, Rank root,
         const std::byte* in, std::byte* out) {
  const int n = comm.size();
  const Rank rank = comm.rank();
  switch (kind) {
    case Kind::all_reduce:
      return comm.all_reduce(in, out, layout.count, type, reduction);
    case Kind::reduce:
      return comm.reduce(in, out, layout.count, type, root, reduction);
    case Kind::reduce_scatter:
      return comm.reduce_scatter(in, out, layout.count, type, reduction);
    case Kind::all_gather:
      return comm.all_gather(in, out, layout.count, type);
    case Kind::broadcast:
      return comm.broadcast(in, out, layout.count, type, root);
    case Kind::gather:
      return comm.gather(in, out, layout.count, type, root);
    case Kind::scatter:
      return comm.scatter(in, out, layout.count, type, root);
    case Kind::all_to_all:
      return comm.all_to_all(in, out, layout.count, type);
    case Kind::all_gather_v:
      return comm.all_gather_v(in, out, layout.out_counts, {}, type);
    case Kind::reduce_scatter_v:
      return comm.reduce_scatter_v(in, out, layout.in_counts, {}, type, reduction);
    case Kind::all_to_all_v:
      return comm.all_to_all_v(in, layout.in_counts, {}, out, layout.out_counts, {}, type);
    case Kind::sendrecv: {
      Group group = comm.group();
      group.send(in, layout.count, type, (rank + 1) % n);
      group.receive(out, layout.count, type, (rank + n - 1) % n);
      return group.run();
    }
    case Kind::ping_pong: {
      const Rank peer = ping_pong_peer(rank, n);
      if (peer < 0) return;
      if (rank < peer) comm.send(in, layout.count, type, peer);
      comm.receive(out, layout.count, type, peer);
      if (rank > peer) comm.send(in, layout.count, type, peer);
      return;
    }
    case Kind::barrier:
      return comm.barrier();
  }
}

}  // namespace tutti::perf
