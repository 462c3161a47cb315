/// \file
/// The steps from which every source of machines (discovery, files, built-in descriptions) puts one together.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "topology/machine.hpp"

namespace tutti::topology {

/// A PCIe link that is known.
struct PcieLink {
  double bandwidth = 0;  ///< GB/s
  int lanes = 1;         ///< 1 where only the whole is known
};

/// As sysfs and NCCL's XML tell it: GT/s a lane, and lanes.
PcieLink pcie_link(double gigatransfers, int lanes);

/// Adds a NUMA domain: `cpu` and its memory.
NodeId add_cpu(Machine& machine, Node cpu);

/// The cpu node of the NUMA domain that the system calls `numaid`, else the first one.
NodeId cpu_of_domain(const Machine& machine, std::string_view numaid);

/// Links all NUMA domains with each other, as the processors' vendor lets expect.
void connect_cpus(Machine& machine);

/// Adds a device below `parent` (a cpu or a bridge), over a link that may be unknown.
NodeId add_device(Machine& machine, NodeId parent, Node device, std::optional<PcieLink> link);

/// The link by which a device hangs on another; nullptr: it hangs on none.
const Link* pcie_above(const Machine& machine, NodeId id);

/// Adds a port to an adapter; `gigabits` per second, 0: not known.
NodeId add_port(Machine& machine, NodeId nic, Node port, double gigabits);

/// Adds a port of which only the adapter is known: as fast as its PCIe link, if that is known.
NodeId add_unknown_port(Machine& machine, NodeId nic, Node port);

/// Adds `count` links of `kind` between two devices, to those that are there already; `each`: GB/s of one.
void add_peer_links(Machine& machine, NodeId a, NodeId b, LinkKind kind, int count, double each);

/// NVLinks as the GPUs tell them, each its own ends: those between two GPUs are told twice.
class PeerLinks {
 public:
  struct Ends {
    NodeId teller = no_node, peer = no_node;
    LinkKind kind = LinkKind::nvlink;
    bool operator<(const Ends& other) const {
      return std::tie(teller, peer, kind) < std::tie(other.teller, other.peer, other.kind);
    }
  };
  /// `each`: GB/s of one of the `count` links. Adds to what was told of the same ends.
  void tell(const Ends& ends, int count, double each);
  void join(Machine& machine) const;

 private:
  struct Told {
    int count = 0;
    double each = 0;
  };
  std::map<Ends, Told> told_;
};

/// The machine's one NVSwitch node, made when missing.
NodeId the_nvswitch(Machine& machine);

/// The last step, when all devices and links are there: joins the two levels as which Broadcom's PEX switches
/// show themselves, as they carry full rate between all their ports (NCCL does the same, topo.cc); drops
/// bridges that lead nowhere; numbers GPUs and ports by their detail "dev", which goes away, else by PCI
/// address; checks.
void finish(Machine& machine);

/// What files without more about a device take it for by its PCI class ("0x030200"): one of the kinds gpu,
/// nic and nvswitch, else a bridge.
NodeKind kind_of_class(std::string_view pci_class);

/// "0000:0f:00.0" in lower case from the ways it is written ("0000:0F:00.0", "00000000:0f:00.0", "0f:00.0"),
/// and "10000:0f:00.0" of a domain beyond 16 bits; empty when it is no PCI address.
std::string pci_address(std::string_view text);

}  // namespace tutti::topology
