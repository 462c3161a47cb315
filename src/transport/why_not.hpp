/// \file
/// What is left of a transport that leads to nobody.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "transport/transport.hpp"

namespace tutti::transport {

/// Why it does not lead to each other rank. Mostly that is one reason, which this rank has.
class WhyNot {
 public:
  WhyNot() = default;
  explicit WhyNot(std::string reason) : reasons_{std::move(reason)} {}
  /// `size`: 2 or more.
  WhyNot(const Transport& transport, Rank me, int size) {
    reasons_.reserve(static_cast<std::size_t>(size));
    const Rank other = me == 0 ? 1 : 0;
    for (Rank peer = 0; peer < size; ++peer) reasons_.push_back(transport.explain(peer == me ? other : peer));
    const std::string first = reasons_.front();
    if (std::ranges::count(reasons_, first) == size) reasons_ = {first};
  }
  [[nodiscard]] std::string to(Rank peer) const {
    if (reasons_.empty()) return {};
    return reasons_.size() == 1 ? reasons_[0] : reasons_.at(static_cast<std::size_t>(peer));
  }

 private:
  std::vector<std::string> reasons_;  ///< by rank, or the one for all
};

}  // namespace tutti::transport
