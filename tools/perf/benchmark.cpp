#include "perf/benchmark.hpp"

#include <algorithm>
#include <array>

#include "bus_factor.hpp"
#include "communicator/plan.hpp"

namespace tutti::perf {

namespace {

/// By `Kind`.
constexpr std::array<Benchmark, 14> all_benchmarks{{
    {Kind::all_reduce, Operation::all_reduce, "all_reduce", true, false, true},
    {Kind::reduce, Operation::reduce, "reduce", true, true, true},
    {Kind::reduce_scatter, Operation::reduce_scatter, "reduce_scatter", true, false, true},
    {Kind::all_gather, Operation::all_gather, "all_gather", false, false, true},
    {Kind::broadcast, Operation::broadcast, "broadcast", false, true, true},
    {Kind::gather, Operation::gather, "gather", false, true, true},
    {Kind::scatter, Operation::scatter, "scatter", false, true, true},
    {Kind::all_to_all, Operation::all_to_all, "all_to_all", false, false, true},
    {Kind::all_gather_v, Operation::all_gather_v, "all_gather_v", false, false, true},
    {Kind::reduce_scatter_v, Operation::reduce_scatter_v, "reduce_scatter_v", true, false, true},
    {Kind::all_to_all_v, Operation::all_to_all_v, "all_to_all_v", false, false, false},
    {Kind::sendrecv, Operation::send, "sendrecv", false, false, false},
    {Kind::ping_pong, Operation::send, "ping_pong", false, false, false},
    {Kind::barrier, Operation::barrier, "barrier", false, false, false},
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

struct Origin {
  Rank source;
  int block;
};

/// Blocks of `counts`, one after the other; block i holds what `origin_of(i)` says.
template <class OriginOf>
std::vector<Part> blocks(const std::vector<std::size_t>& counts, OriginOf origin_of) {
  std::vector<Part> parts;
  std::size_t first = 0;
  for (int i = 0; const std::size_t count : counts) {
    const auto [source, block] = origin_of(i++);
    parts.push_back({first, count, source, block});
    first += count;
  }
  return parts;
}

Rank ping_pong_peer(Rank rank, int ranks) { return (rank ^ 1) < ranks ? rank ^ 1 : -1; }

struct Seat {
  int ranks;
  Rank rank, root;
};

/// Operations whose buffers all hold one contribution of `elements`.
Layout whole_layout(Kind kind, std::size_t elements, const Seat& seat) {
  const bool is_root = seat.rank == seat.root;
  const auto all_of = [&](Rank source) { return std::vector<Part>{{0, elements, source, 0}}; };
  Layout layout;
  layout.count = layout.in_elements = layout.out_elements = elements;
  if (kind != Kind::broadcast || is_root) layout.in = all_of(seat.rank);
  if (kind == Kind::all_reduce || (kind == Kind::reduce && is_root)) layout.out = all_of(reduced);
  if (kind == Kind::broadcast) layout.out = all_of(seat.root);
  if (kind == Kind::sendrecv) layout.out = all_of((seat.rank + seat.ranks - 1) % seat.ranks);
  if (kind == Kind::ping_pong)
    if (const Rank peer = ping_pong_peer(seat.rank, seat.ranks); peer >= 0) layout.out = all_of(peer);
  return layout;
}

/// Operations between one block, of `counts[rank]` elements, and all blocks.
Layout gathering_layout(Kind kind, const std::vector<std::size_t>& counts, const Seat& seat) {
  const auto me = static_cast<std::size_t>(seat.rank);
  const bool is_root = seat.rank == seat.root;
  const auto contributions = blocks(counts, [&](int i) { return Origin{seat.rank, i}; });
  const auto gathered = blocks(counts, [](int i) { return Origin{i, 0}; });
  const std::size_t all = gathered.back().first + gathered.back().count;
  const bool gathers = kind == Kind::all_gather || kind == Kind::all_gather_v || kind == Kind::gather;
  Layout layout;
  layout.count = counts[me];
  layout.own = gathered[me].first;
  layout.in_elements = gathers ? counts[me] : all;
  layout.out_elements = gathers ? all : counts[me];
  if (gathers) {
    layout.in = {{0, counts[me], seat.rank, 0}};
    if (kind != Kind::gather || is_root) layout.out = gathered;
  } else {
    if (kind != Kind::scatter || is_root) layout.in = contributions;
    layout.out = {{0, counts[me], kind == Kind::scatter ? seat.root : reduced, seat.rank}};
  }
  return layout;
}

/// Operations between all blocks and all blocks.
Layout exchange_layout(const std::vector<std::size_t>& in_counts, const std::vector<std::size_t>& out_counts,
                       Rank rank) {
  Layout layout;
  layout.in = blocks(in_counts, [&](int i) { return Origin{rank, i}; });
  layout.out = blocks(out_counts, [&](int i) { return Origin{i, rank}; });
  layout.in_elements = layout.in.back().first + layout.in.back().count;
  layout.out_elements = layout.out.back().first + layout.out.back().count;
  return layout;
}

}  // namespace

std::span<const Benchmark> benchmarks() { return all_benchmarks; }

const Benchmark* find_benchmark(std::string_view name) {
  const auto* found = std::ranges::find(all_benchmarks, name, &Benchmark::name);
  return found == all_benchmarks.end() ? nullptr : found;
}

double bus_factor(Kind kind, int ranks) {
  const auto collective = collective_of(all_benchmarks[static_cast<std::size_t>(kind)].operation);
  return collective ? tutti::bus_factor(*collective, ranks) : 1;  // messages
}

Layout make_layout(Kind kind, std::size_t elements, int ranks, Rank rank, Rank root) {
  const auto n = static_cast<std::size_t>(ranks), me = static_cast<std::size_t>(rank);
  const std::size_t block = elements == 0 ? 0 : std::max<std::size_t>(elements / n, 1);
  const std::vector<std::size_t> even(n, block), varied = uneven(block, ranks);
  const Seat seat{ranks, rank, root};
  Layout layout;
  switch (kind) {
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::broadcast:
    case Kind::sendrecv:
    case Kind::ping_pong:
      return whole_layout(kind, elements, seat);
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::gather:
    case Kind::scatter:
      return gathering_layout(kind, even, seat);
    case Kind::reduce_scatter_v:
    case Kind::all_gather_v:
      layout = gathering_layout(kind, varied, seat);
      (kind == Kind::all_gather_v ? layout.out_counts : layout.in_counts) = varied;
      break;
    case Kind::all_to_all:
      layout = exchange_layout(even, even, rank);
      break;
    case Kind::all_to_all_v: {
      std::vector<std::size_t> to(n), from(n);
      for (std::size_t peer = 0; peer < n; ++peer) {
        to[peer] = varied[(peer + n - me) % n];
        from[peer] = varied[(me + n - peer) % n];
      }
      layout = exchange_layout(to, from, rank);
      layout.in_counts = std::move(to);
      layout.out_counts = std::move(from);
      break;
    }
    case Kind::barrier:
      return layout;
  }
  layout.count = block;
  return layout;
}

Call make_call(Kind kind, const Layout& layout, DataType type, Reduction reduction, Rank root,
               const std::byte* in, std::byte* out) {
  return {.operation = all_benchmarks[static_cast<std::size_t>(kind)].operation,
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

void run(Communicator& comm, Kind kind, const Call& call) {
  const Rank rank = comm.rank();
  if (kind == Kind::sendrecv) {
    Group group = comm.group();
    group.send(call.in, call.count, call.type, (rank + 1) % comm.size());
    group.receive(call.out, call.count, call.type, (rank + comm.size() - 1) % comm.size());
    group.run();
  } else if (kind == Kind::ping_pong) {
    const Rank peer = ping_pong_peer(rank, comm.size());
    if (peer < 0) return;
    if (rank < peer) comm.send(call.in, call.count, call.type, peer);
    comm.receive(call.out, call.count, call.type, peer);
    if (rank > peer) comm.send(call.in, call.count, call.type, peer);
  } else {
    comm.call(call);
  }
}

}  // namespace tutti::perf
