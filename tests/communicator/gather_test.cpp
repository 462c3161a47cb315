// Blocks of a gather go by cross-memory attach, too: the root fetches them, or each rank writes a long one
// into the root's output.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "communicator/ranks.hpp"
#include "communicator/victims.hpp"
#include "transport/shm/path_trial.hpp"

namespace tutti::test {
namespace {

#ifndef __SANITIZE_THREAD__  // which sees one process, and here ranks are processes

using Block = std::vector<std::uint32_t>;

std::uint32_t value(Rank rank, std::uint32_t call) {
  return call * 1'000'003U + static_cast<std::uint32_t>(rank) * 65'537U;
}

/// Gathers blocks of such length until all ways have been tried, every other call in place; what this rank
/// copied into or out of others' memory. Senders write their blocks anew as soon as they have them back.
std::uint64_t gather_often(Communicator& comm, Rank root, std::size_t length) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const bool is_root = comm.rank() == root;
  const std::uint64_t before = comm.stats().bytes_direct;
  Block block(length), all(is_root ? ranks * length : 0);
  const auto own = is_root ? std::span(all).subspan(static_cast<std::size_t>(root) * length, length)
                           : std::span<std::uint32_t>();
  for (std::uint32_t call = 0; call < PathTrial::usual.first_gap + PathTrial::usual.calls(3) + 3; ++call) {
    const std::span<std::uint32_t> in = is_root && call % 2 != 0 ? own : std::span(block);
    std::iota(in.begin(), in.end(), value(comm.rank(), call));
    comm.gather(std::span<const std::uint32_t>(in), std::span(all), root);
    std::fill(block.begin(), block.end(), 0U);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (const auto from = static_cast<Rank>(i / length); all[i] != value(from, call) + i % length) {
        ADD_FAILURE() << "call " << call << ", " << i % length << " of rank " << from;
        return 0;
      }
  }
  return comm.stats().bytes_direct - before;
}

TEST(Gather, EachRankWritesALongBlockIntoTheRootsOutput) {
  if (!kernel_permits_attach()) GTEST_SKIP() << "no cross-memory attach here";
  run_processes(3, over("shm"), [](Communicator& comm) {
    for (const std::size_t length : {std::size_t{20'001}, std::size_t{500'001}}) {
      const std::uint64_t direct = gather_often(comm, 1, length);
      const bool is_long = 3 * length * sizeof(std::uint32_t) >= std::size_t{1} << 20U;
      EXPECT_EQ(direct != 0, is_long == (comm.rank() != 1)) << "blocks of " << length;
    }
  });
}

// While others write into its output, or it into theirs.
TEST(Gather, OfARankThatEndsInTheMiddle) {
  for (const Rank victim : {0, 2})
    end_one(
        "shm", victim,
        [](Communicator& comm, std::uint32_t) {
          static const Block block(1'000'000, 1U);
          static Block all(3 * block.size());
          comm.gather(std::span(block), comm.rank() == 0 ? std::span(all) : std::span<std::uint32_t>(), 0);
        },
        killed);
}

#endif

}  // namespace
}  // namespace tutti::test
