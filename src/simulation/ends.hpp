/// \file
/// The ends of FIFOs at one rank, numbered by lane in the order of their first use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tutti/schedule.hpp>

namespace tutti::simulation {

/// A peer and a channel.
using End = std::uint32_t;
constexpr End end_of(Rank peer, int channel) {
  return static_cast<End>(peer) * max_channels + static_cast<End>(channel);
}
constexpr Rank peer_of(End end) { return static_cast<Rank>(end / max_channels); }
constexpr int channel_of(End end) { return static_cast<int>(end % max_channels); }

/// Ends in one direction. Made for millions of them: a few bytes each.
class Ends {
 public:
  /// The number of `end`; a new one when a lane uses it for the first time.
  std::uint32_t number(End end, int lane) {
    if (2 * (used_ + 1) > table_.size()) grow();
    auto& entry = slot(end);
    if (entry.first == 0) {
      ++used_;
      auto& mine = lanes_[static_cast<std::size_t>(lane)];
      entry = {end + 1,
               static_cast<std::uint32_t>(lane) << lane_shift | static_cast<std::uint32_t>(mine.size())};
      mine.push_back(end);
    }
    return entry.second;
  }
  /// Of an end that is known.
  [[nodiscard]] std::uint32_t number(End end) const { return const_cast<Ends*>(this)->slot(end).second; }
  [[nodiscard]] const std::array<std::vector<End>, max_lanes>& lanes() const { return lanes_; }

 private:
  static constexpr int lane_shift = 28;
  using Entry = std::pair<End, std::uint32_t>;  // end + 1 (0: free), number

  Entry& slot(End end) {
    std::size_t at = end * std::size_t{0x9E3779B97F4A7C15U} >> 20 & (table_.size() - 1);
    while (table_[at].first != 0 && table_[at].first != end + 1) at = (at + 1) & (table_.size() - 1);
    return table_[at];
  }
  void grow() {
    const auto old = std::exchange(table_, std::vector<Entry>(table_.empty() ? 8 : 2 * table_.size()));
    for (const Entry& entry : old)
      if (entry.first != 0) slot(entry.first - 1) = entry;
  }

  std::vector<Entry> table_;
  std::size_t used_ = 0;
  std::array<std::vector<End>, max_lanes> lanes_;
};

}  // namespace tutti::simulation
