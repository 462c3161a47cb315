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

/// One word for each number and each source, [id][source]: how many notifications that source has sent. Each
/// word has one writer, which writes running totals: a plain store by ranks of this host, a frame from TCP
/// peers, a small RDMA WRITE behind the data. So no transport needs atomics, receives or credits for them.
/// Whoever reads a total with acquire sees the data that it stands for.
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
  /// From any thread.
  void set(std::uint32_t id, Rank source, std::uint64_t total) const;
  /// Notifications that came and were not taken; `from` < 0: of all.
  [[nodiscard]] std::uint64_t arrived(std::uint32_t id, Rank from) const;
  /// Takes `count`, and returns true, if so many have arrived.
  bool take(std::uint32_t id, std::uint64_t count, Rank from);

 private:
  [[nodiscard]] std::uint64_t pending(std::uint32_t id, Rank source) const;
  std::byte* memory_;
  std::uint32_t numbers_;
  int ranks_;
  std::vector<std::uint64_t> taken_;  ///< in the same places
};

}  // namespace tutti::detail
