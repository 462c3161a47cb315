/// \file
/// From what each rank sees of its machine to the world that all see alike.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "topology/world.hpp"

namespace tutti::topology {

/// Where this rank is.
struct Place {
  Machine machine{};
  std::string host{};           ///< equal for ranks of one host, and for no others (host.hpp)
  std::string nvlink_domain{};  ///< empty: none that spans hosts
  NodeId device = no_node;      ///< in `machine`
};

/// This process on this machine: the processors it runs on, or GPU number `gpu`. Throws
/// Error(invalid_argument) when there is no such GPU.
Place this_place(int gpu = -1);

/// Every rank's bytes, in rank order.
using AllGather = std::function<std::vector<std::vector<std::byte>>(std::span<const std::byte>)>;

/// Collective; `rank` is this one's number. Each rank tells about 100 bytes, and one rank of each kind of
/// machine the machine: a thousand equal hosts cost one description. Ranks of one host that see it
/// differently (containers with other devices) get the view with the most devices. Throws Error(mismatch)
/// with the ranks whose bytes are not understood.
World exchange(Rank rank, const Place& mine, const AllGather& all_gather);

}  // namespace tutti::topology
