/// \file
/// By what means two ranks talk, and why not by a better one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/paths.hpp"
#include "topology/world.hpp"

namespace tutti::topology {

/// Best first.
enum class Means : std::uint8_t {
  same_gpu,       ///< memory of one GPU that both ranks drive
  nvlink,         ///< peer access over NVLink, NVSwitch or xGMI; within a rack's domain also between hosts
  pcie_peer,      ///< peer access over PCIe
  shared_memory,  ///< through host memory that both map
  gpudirect,      ///< RDMA between the GPUs' memory
  rdma,           ///< RDMA between host memory; for buffers on GPUs staged there
  tcp,
  none,
};

enum class Memory : std::uint8_t { cpu, gpu };

/// What the machine's picture does not show. Limits as in NCCL (NCCL_P2P_LEVEL, NCCL_NET_GDR_LEVEL).
struct Rules {
  Memory memory = Memory::gpu;                            ///< where the buffers are
  PathClass farthest_peer = PathClass::pcie_switches;     ///< for peer access over PCIe
  PathClass farthest_adapter = PathClass::pcie_switches;  ///< for GPUDirect; over NVLink-C2C also beyond
  bool shared_memory = true;                              ///< ranks of one host can share some
};

struct Refusal {
  Means means = Means::none;
  std::string why{};
};

/// What data crosses on the way from one rank to another.
struct Route {
  PathClass kind = PathClass::none;
  Path leaving{};        ///< in the first rank's host: to the other device, or to the port or switch
  Path arriving{};       ///< in the second one's, from its port or switch; empty within one host
  double bandwidth = 0;  ///< GB/s
  double latency = 0;    ///< us
};

struct Choice {
  Means means = Means::none;
  Route route{};
  std::vector<Refusal> refused{};  ///< every better means, best first
};

/// Throws Error(invalid_argument) for ranks that are not in the world or are the same.
Choice choose(const World& world, Rank from, Rank to, const Rules& rules = {});

/// "nvlink", "gpudirect rdma", ...
std::string_view name(Means means) noexcept;

/// "rank 0 -> 9: gpudirect rdma, 48 GB/s, 2.7 us", and below it a line for each better means with its
/// refusal.
std::string describe(const World& world, Rank from, Rank to, const Choice& choice);

}  // namespace tutti::topology
