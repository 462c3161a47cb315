/// \file
/// One machine as data: a graph of devices and the links between them. Everything that reads a topology
/// (paths, choice of transports, simulation, drawing) reads this; everything that finds or imports one
/// (discovery, hwloc, NCCL's XML, the built-in machines) makes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::topology {

enum class NodeKind : std::uint8_t {
  cpu,       ///< the cores of one NUMA domain and the PCIe root complex next to them
  memory,    ///< that domain's DRAM
  bridge,    ///< a PCIe switch (upstream and downstream ports as one node), or a PCI bridge
  gpu,       ///< with its memory
  nic,       ///< a network adapter: the PCI function
  port,      ///< a port of an adapter: one cable
  nvswitch,  ///< all NVLink switches a GPU is connected to, as one: the hardware stripes over them
};

enum class LinkKind : std::uint8_t {
  memory,  ///< a NUMA domain's memory channels
  socket,  ///< between NUMA domains: UPI, Infinity Fabric, ...
  pcie,
  c2c,     ///< NVLink-C2C between a GPU and its CPU
  nvlink,  ///< `count` NVLinks as one
  xgmi,    ///< AMD's equivalent
  wire,    ///< an adapter's port: its line rate
};

/// Index in Machine::nodes, Machine::links.
using NodeId = std::int32_t;
using LinkId = std::int32_t;
inline constexpr NodeId no_node = -1;

/// More is no machine, but a mistake or an attack.
inline constexpr std::size_t most_nodes = 4096;
inline constexpr std::size_t most_links = 16384;
inline constexpr std::size_t most_pcie_levels = 64;
inline constexpr int most_side_by_side = 1024;  ///< Link::count

struct Node {
  NodeKind kind = NodeKind::cpu;
  int index = 0;        ///< among the nodes of its kind, from 0, in the machine's own order (CUDA's for GPUs)
  std::string label{};  ///< what the system or the vendor calls it: "mlx5_0", "NVIDIA H100"; may be empty
  std::string pci{};    ///< "0000:0f:00.0" in lower case; empty: not a PCI device, or not known
  int package = -1;   ///< cpu: the socket it lies in; -1: not known, and then every NUMA domain counts as one
  bool rdma = false;  ///< port: speaks RDMA; gpu: an adapter can reach its memory (GPUDirect RDMA)
  /// What else is known and no rule reads: "sm", "vendor", "affinity", ... Nothing that differs between two
  /// machines of one build (serial numbers, GUIDs): such machines are equal.
  std::map<std::string, std::string> details{};

  bool operator==(const Node&) const = default;
};

/// Both directions alike, and independent of each other.
struct Link {
  NodeId a = no_node, b = no_node;  ///< pcie, wire: `b` hangs on `a`
  LinkKind kind = LinkKind::pcie;
  double bandwidth =
      0;               ///< GB/s (1e9 bytes) a direction, as data gets through it (rates.hpp), of all `count`
  double latency = 0;  ///< us
  int count = 1;       ///< nvlink, xgmi: links that run side by side; pcie: lanes; else 1
  bool assumed = false;  ///< the rates are a guess, because the machine does not show its own

  bool operator==(const Link&) const = default;
};

struct Machine {
  std::string name{};  ///< "dgx-h100", a file's name, "this machine"
  std::vector<Node> nodes{};
  std::vector<Link> links{};
  int nvlink_machines = 1;  ///< so many machines share one NVSwitch: 18 in a rack of NVL72
  /// What could not be seen, in sentences for a person. No part of the machine's identity.
  std::vector<std::string> unseen{};

  /// Sets `index` to the number of nodes of its kind so far. Throws Error(invalid_argument) beyond
  /// `most_nodes`.
  NodeId add(Node node);
  LinkId add(const Link& link);  ///< throws Error(invalid_argument) beyond `most_links`

  [[nodiscard]] const Node& node(NodeId id) const { return nodes[static_cast<std::size_t>(id)]; }
  [[nodiscard]] Node& node(NodeId id) { return nodes[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Link& link(LinkId id) const { return links[static_cast<std::size_t>(id)]; }
  /// The nodes of a kind, by `index`.
  [[nodiscard]] std::vector<NodeId> all(NodeKind kind) const;
  [[nodiscard]] std::size_t count(NodeKind kind) const;
  /// Links at each node: adjacency()[node] lists them in the order they were added.
  [[nodiscard]] std::vector<std::vector<LinkId>> adjacency() const;
  [[nodiscard]] NodeId other_end(LinkId link, NodeId end) const;
  /// The node that a person names: "gpu3", "nic0", a PCI address, a label ("mlx5_2"). no_node: none such.
  [[nodiscard]] NodeId find(std::string_view text) const;
};

/// "gpu", "nvlink", ...
std::string_view name(NodeKind kind) noexcept;
std::string_view name(LinkKind kind) noexcept;
/// "gpu3"
std::string name(const Node& node);
/// What `Node::details` has under `key`, or `otherwise`.
std::string detail(const Node& node, const std::string& key, std::string_view otherwise = "");

/// Throws Error(invalid_argument) that says what is wrong with a machine that others gave: links of nodes
/// that are not there, or that such links do not join, PCIe links that are no trees, rates that are none,
/// more nodes or links than `most_nodes`, `most_links`, an NVSwitch to be shared that is not there.
void check(const Machine& machine);
/// Equal for machines of one build: all but name and what was unseen. 64 bits of FNV-1a over the JSON form.
std::uint64_t hash(const Machine& machine);
/// Equal as long as the machine has the same processors, and the same adapters and GPUs on its PCI bus,
/// whatever cables are plugged in, interfaces exist and drivers are loaded: display controllers, which may be
/// GPUs, are left out.
std::uint64_t hash_of_parts(const Machine& machine);

}  // namespace tutti::topology
