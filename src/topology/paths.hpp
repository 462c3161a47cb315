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

/// A path without what lies on it.
struct Reach {
  PathClass kind = PathClass::none;
  std::int32_t hops = 0;
  double bandwidth = 0, latency = 0;  ///< as of Path
};

/// From one node to all. The best class wins, then fewer links, then more bandwidth, then less latency, then
/// the lower numbers: the same on every rank. Data passes through processors, bridges and NVSwitches only; a
/// GPU does not forward. Each path is kept as its last link and the path before that: whole ones would have
/// n^2 links along a chain of n devices, and there are n nodes to begin at.
class Paths {
 public:
  Paths(const Machine& machine, NodeId from);
  [[nodiscard]] const Reach& operator[](NodeId to) const;
  [[nodiscard]] Path to(NodeId node) const;

 private:
  struct Way {
    Reach reach{};
    NodeId node = no_node;   ///< where it ends
    LinkId link = -1;        ///< the last; none of a way that only begins
    std::size_t before = 0;  ///< the way without that link, in ways_
  };
  static constexpr std::size_t none = 0;  ///< the way to what cannot be reached

  [[nodiscard]] PathClass extended(const Machine& machine, const Way& way, LinkId id) const;
  [[nodiscard]] bool better(const Way& a, const Way& b) const;

  std::vector<Way> ways_;          ///< also those that others were better than: some lead on from them
  std::vector<std::size_t> best_;  ///< [node], in ways_
};

Path path(const Machine& machine, NodeId from, NodeId to);

/// "pcie switch", "sockets", ...
std::string_view name(PathClass kind) noexcept;
/// Four letters for matrices: NCCL's, "SELF", "NVL", "NVS", "PIX", "PXB", "PHB", "SYS", "NET", "-".
std::string_view abbreviation(PathClass kind) noexcept;

/// "gpu0 -pcie- bridge2 -pcie- nic0"
std::string describe(const Machine& machine, const Path& path);

}  // namespace tutti::topology
