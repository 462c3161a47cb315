/// \file
/// What NVIDIA's management library knows: the GPUs that this process may use, and where their NVLinks lead.
/// The library is loaded at run time, so that one binary serves machines with and without a driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/machine.hpp"

namespace tutti::topology {

/// One active NVLink of a GPU.
struct NvmlLink {
  enum class Remote : std::uint8_t { gpu, nvswitch, cpu, unknown };
  Remote remote = Remote::unknown;
  std::string pci{};  ///< of the remote end; empty: not told, as in virtual machines
};

struct NvmlGpu {
  std::string pci{};
  std::string name{};
  int compute_capability = 0;  ///< 90: Hopper; 0: not told
  std::vector<NvmlLink> links{};
  std::string fabric{};  ///< the NVLink domain beyond this host, "<cluster>.<clique>"; empty: none
};

/// All GPUs in NVML's order. Nothing where there is no library or no driver; the reason is then in `why_not`.
std::optional<std::vector<NvmlGpu>> read_nvml(std::string& why_not,
                                              const std::string& library = "libnvidia-ml.so.1");

/// Numbers the machine's GPUs as NVML does, and adds names, NVLinks, and GPUs that are not seen on the PCI
/// bus.
void add_gpus(Machine& machine, const std::vector<NvmlGpu>& gpus);

}  // namespace tutti::topology
