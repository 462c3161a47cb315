/// \file
/// Which ports and which of their addresses to use, and why. Nothing here touches a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/verbs/devices.hpp"
#include "transport/verbs/options.hpp"

namespace tutti::transport::verbs {

struct ChosenPort {
  Device device;
  Port port;
};

/// The ports to use as rails, best first, `max_rails` at most. Empty, with the cause in `why_none`, when
/// there are none. Throws Error(invalid_argument) for options that name what does not exist (lists what does)
/// or cannot be used. `near_node`: the NUMA node to prefer, or -1.
std::vector<ChosenPort> choose_ports(const std::vector<Device>& devices, const VerbsOptions& options,
                                     int near_node, std::string& why_none);

struct ChosenGid {
  Gid gid;
  std::string reason;  ///< in words, to be continued: "the first RoCE v2 IPv4 address"
};

/// Addresses worth trying, best first: for RoCE version 2 before version 1, IPv4 before global before
/// link-local IPv6; for InfiniBand the first; a forced one alone. None whose index queue pairs cannot hold
/// (256 and more). Empty when there is none.
std::vector<ChosenGid> gid_candidates(const Port& port, int forced_index);

/// Whether queue pairs of ports with these partition keys reach each other: the keys are of one partition,
/// and not both of limited members, whose keys lack the highest bit. 0: not known, as if they did.
bool share_partition(std::uint16_t one, std::uint16_t other);

/// What `automatic` means for so many bytes on this link; anything else is itself.
Signal signal_for(Signal wanted, LinkLayer layer, std::size_t bytes);

}  // namespace tutti::transport::verbs
