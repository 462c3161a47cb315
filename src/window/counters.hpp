/// \file
/// The counters of a window's notifications on one rank, written by the others.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <tutti/types.hpp>

namespace tutti::detail {

/// One word for each number and each source, [id][source]: how many notifications that source has put there.
/// Each word has one writer, which writes running totals: the source where it is on this host, the server's
/// thread for TCP peers, the device for RDMA peers. Whoever reads a total with acquire sees the data that it
/// stands for. What came by other means, immediates of RDMA, is counted beside the words; each notification
/// takes one of the two ways.
class Counters {
 public:
  /// Over zeroed memory of `bytes_for` bytes, which must stay.
  Counters(std::byte* memory, std::uint32_t numbers, int ranks);
  static std::size_t bytes_for(std::uint32_t numbers, int ranks) {
    return std::size_t{numbers} * static_cast<std::size_t>(ranks) * sizeof(std::uint64_t);
  }
  /// Of a source's word from the beginning.
  static std::size_t offset_of(std::uint32_t id, Rank source, int ranks) {
    return (std::size_t{id} * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(source)) *
           sizeof(std::uint64_t);
  }
  [[nodiscard]] std::uint32_t numbers() const { return numbers_; }
  /// One more in the word; for its one writer.
  void add(std::uint32_t id, Rank source) const;
  /// One more that is not in the word; for the reader's thread.
  void add_beside(std::uint32_t id, Rank source);
  /// Notifications that came and were not taken; `from` < 0: of all.
  [[nodiscard]] std::uint64_t arrived(std::uint32_t id, Rank from) const;
  /// Takes `count`, and returns true, if so many have arrived.
  bool take(std::uint32_t id, std::uint64_t count, Rank from);

 private:
  [[nodiscard]] std::uint64_t pending(std::uint32_t id, Rank source) const;
  std::byte* memory_;
  std::uint32_t numbers_;
  int ranks_;
  std::vector<std::uint64_t> taken_;  ///< in the same places; less what came beside the words, modulo 2^64
};

}  // namespace tutti::detail
