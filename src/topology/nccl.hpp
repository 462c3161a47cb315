/// \file
/// NCCL's topology files (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE; src/graph/xml.cc and topo.cc there): complete
/// ones, skeletons whose GPUs and adapters are known by their PCI class only, and RCCL's dialect (version 2,
/// <xgmi>).
#pragma once

#include <string>
#include <string_view>

#include "topology/machine.hpp"

namespace tutti::topology {

/// Throws Error(invalid_argument) with the line. What the file leaves open is in `unseen`.
Machine from_nccl_xml(std::string_view text);

/// A file that NCCL loads, or RCCL where the GPUs are AMD's.
std::string to_nccl_xml(const Machine& machine);

}  // namespace tutti::topology
