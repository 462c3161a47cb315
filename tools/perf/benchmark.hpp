/// \file
/// What tutti-perf can measure: the operations, their buffers, and nccl-tests' definitions of size and bus
/// bandwidth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <tutti/communicator.hpp>

namespace tutti::perf {

enum class Kind : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  gather,
  scatter,
  all_to_all,
  all_gather_v,
  reduce_scatter_v,
  all_to_all_v,
  sendrecv,   ///< every rank sends to the next one and receives from the previous one, as nccl-tests'
              ///< sendrecv_perf
  ping_pong,  ///< ranks 2k and 2k + 1 send a message there and back; the time is that of one way
  barrier
};

struct Benchmark {
  Kind kind;
  Operation operation;  ///< of its call: see make_call
  std::string_view name;
  bool reduces;
  bool rooted;
  bool in_place;
};
std::span<const Benchmark> benchmarks();
/// nullptr when there is none of that name.
const Benchmark* find_benchmark(std::string_view name);

/// That of its collective; of a message 1.
double bus_factor(Kind kind, int ranks);

/// `reduced`, or the rank whose contribution a part holds.
inline constexpr Rank reduced = -1;

/// Elements [first, first + count) of a buffer hold one value: contribution number `block` of `source`.
struct Part {
  std::size_t first, count;
  Rank source;
  int block;
};

/// The buffers of one rank in one call, in elements. Sizes are equal on all ranks.
struct Layout {
  std::size_t count = 0;  ///< of the rank's block, nccl-tests' "count" column
  std::size_t in_elements = 0, out_elements = 0;
  std::size_t own =
      0;  ///< where this rank's block lies in the larger buffer: there the smaller one is in place
  std::vector<Part> in;                            ///< what to fill in; the rest is not read
  std::vector<Part> out;                           ///< what must come out
  std::vector<std::size_t> in_counts, out_counts;  ///< v-forms
};

/// The layout for a buffer of `elements` in all, by nccl-tests' convention: operations with a block a rank
/// get elements / ranks each (at least one, unless there are none).
Layout make_layout(Kind kind, std::size_t elements, int ranks, Rank rank, Rank root);

/// The call of an operation, which leads to the counts in `layout`; of sendrecv and ping_pong, both of whose
/// messages go by its buffers and count: a send.
Call make_call(Kind kind, const Layout& layout, DataType type, Reduction reduction, Rank root,
               const std::byte* in, std::byte* out);

/// Runs the operation once, as a user would.
void run(Communicator& comm, Kind kind, const Call& call);

}  // namespace tutti::perf
