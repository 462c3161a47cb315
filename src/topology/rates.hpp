/// \file
/// What a link of a kind carries, where the machine itself does not say. The figures are those that NCCL
/// plans with (src/graph/topo.h of 2.30), and RCCL for xGMI: rates that data gets through at, not those of
/// the data sheets. Latencies of the links add up to NCCL's per-hop constants of its shortest protocol
/// (tuning.cc: NVLink 0.6 us, PCIe 1.0 us, network 2.7 us).
#pragma once

#include <string_view>

#include "topology/machine.hpp"

namespace tutti::topology {

/// GB/s of so many lanes at a rate in GT/s: 12 for x16 of the third generation.
double pcie_bandwidth(double gigatransfers, int lanes);

/// GB/s of one NVLink of a GPU of this compute capability (90: Hopper); of an unknown one (0) as of Ampere.
double nvlink_bandwidth(int compute_capability);

/// GB/s of one xGMI link of an architecture, as RCCL writes it: "gfx942", "908".
double xgmi_bandwidth(std::string_view architecture);

/// GB/s between two sockets with such processors: details "arch", "vendor", "family", "model", as
/// /proc/cpuinfo or NCCL's XML give them. 0: not known.
double socket_bandwidth(const Node& cpu);

/// GB/s of a cable of so many Gbit/s.
constexpr double wire_bandwidth(double gigabits) { return gigabits / 8; }

/// GB/s of NVLink-C2C between Grace and its GPU, a direction (NVIDIA's data sheet: 900 both).
inline constexpr double c2c_bandwidth = 450;

/// Where nothing is known: links that a plan may use, marked `assumed`.
inline constexpr double assumed_socket_bandwidth = 10;
inline constexpr double assumed_memory_bandwidth = 100;
inline constexpr double assumed_wire_bandwidth = wire_bandwidth(10);
inline constexpr double assumed_pcie_gigatransfers = 8;
inline constexpr int assumed_pcie_lanes = 16;

/// us a link.
double latency(LinkKind kind);

}  // namespace tutti::topology
