/// \file
/// Machines that everybody knows, written down from public facts: their vendors' pages and what NCCL plans
/// with (rates.hpp). Only what takes part in collectives: no adapters for storage and management.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/machine.hpp"

namespace tutti::topology {

/// "dgx-h100", "dgx-a100", "nvl72", "pcie-box", "uneven-box".
std::vector<std::string> builtin_names();

/// Nothing for an unknown name.
std::optional<Machine> builtin(std::string_view name);

}  // namespace tutti::topology
