/// \file
/// A group whose ranks are threads of this process: what a transport needs to be set up without a session.
#pragma once

#include <barrier>
#include <memory>
#include <span>
#include <vector>

#include "transport/transport.hpp"

namespace tutti::transport::testing {

/// Where the ranks of one group meet to gather.
class MeetingPoint {
 public:
  explicit MeetingPoint(int size) : contributions_(static_cast<std::size_t>(size)), barrier_(size) {}
  std::vector<std::vector<std::byte>> all_gather(Rank rank, std::span<const std::byte> mine) {
    contributions_[static_cast<std::size_t>(rank)].assign(mine.begin(), mine.end());
    barrier_.arrive_and_wait();
    auto all = contributions_;
    barrier_.arrive_and_wait();  // nobody begins the next gather while one still copies
    return all;
  }

 private:
  std::vector<std::vector<std::byte>> contributions_;
  std::barrier<> barrier_;
};

/// One Group a rank. World ranks are 10, 11, ... so that mixing them up with the group's is noticed.
inline std::vector<Group> local_groups(int size, std::uint64_t communicator = 1) {
  auto meeting = std::make_shared<MeetingPoint>(size);
  std::vector<Group> groups;
  for (Rank rank = 0; rank < size; ++rank) {
    Group group;
    group.rank = rank;
    group.size = size;
    group.communicator = communicator;
    for (Rank r = 0; r < size; ++r) group.world.push_back(10 + r);
    group.all_gather = [meeting, rank](std::span<const std::byte> mine) {
      return meeting->all_gather(rank, mine);
    };
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace tutti::transport::testing
