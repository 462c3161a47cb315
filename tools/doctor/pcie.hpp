/// \file
/// Access control services (ACS) of PCIe bridges: where they redirect, traffic between a GPU and an RDMA
/// device makes a detour through the processor, or hangs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "doctor/finding.hpp"
#include "doctor/root.hpp"

namespace tutti::doctor {

struct Bridge {
  std::string address{};               ///< "0000:00:01.0"
  bool readable = true;                ///< its extended configuration; only root may read it
  std::optional<std::uint16_t> acs{};  ///< control register; none: it has no ACS
};

struct PcieFacts {
  std::vector<Bridge> bridges{};
  bool gpu = false;
  bool iommu = false;  ///< the kernel uses one
};

/// Control register of the ACS capability in a configuration space of 4096 bytes, or none.
std::optional<std::uint16_t> find_acs(std::span<const std::uint8_t> configuration);

PcieFacts read_pcie(const Root& root);
Findings examine(const PcieFacts& facts);

}  // namespace tutti::doctor
