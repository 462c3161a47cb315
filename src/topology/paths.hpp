/// \file
/// The way data takes between two devices of one machine, and what kind of way that is. The kinds are those
/// of NCCL (src/graph/graph.h: NVL, PIX, PXB, PHB, SYS, NET), best first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/machine.hpp"

namespace tutti::topology {

enum class PathClass : std::uint8_t {
  same,           ///< one device
  direct,         ///< NVLink, NVLink-C2C or xGMI from one to the other
  nvswitch,       ///< NVLink through switches
  pcie_switch,    ///< through one PCIe switch
  pcie_switches,  ///< through several, without the processor
  host,           ///< through the processor's root complex, or to its memory
  sockets,        ///< from one socket to another
  network,        ///< to another machine
  none,           ///< no way
};

struct Path {
  PathClass kind = PathClass::none;
  std::vector<NodeId> nodes{};  ///< from the first device to the second one, both included
  std::vector<LinkId> links{};  ///< links[i] joins nodes[i] and nodes[i + 1]
  double bandwidth = 0;  ///< GB/s of the narrowest link, when nothing else uses it; infinite for `same`
  double latency = 0;    ///< us, the sum of the links'

  [[nodiscard]] std::size_t hops() const { return links.size(); }
};

/// Paths from `from` to every node, indexed by node. The best class wins, then fewer links, then more
/// bandwidth, then the lower numbers: the same on every rank. Data passes through processors, bridges and
/// NVSwitches only; a GPU does not forward.
std::vector<Path> paths_from(const Machine& machine, NodeId from);
Path path(const Machine& machine, NodeId from, NodeId to);

/// "pcie switch", "sockets", ...
std::string_view name(PathClass kind) noexcept;
/// Four letters for matrices: NCCL's, "SELF", "NVL", "NVS", "PIX", "PXB", "PHB", "SYS", "NET", "-".
std::string_view abbreviation(PathClass kind) noexcept;

/// "gpu0 -pcie- bridge2 -pcie- nic0"
std::string describe(const Machine& machine, const Path& path);

}  // namespace tutti::topology
