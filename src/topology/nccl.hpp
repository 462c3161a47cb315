/// \file
/// NCCL's topology files (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE; src/graph/xml.cc and topo.cc there): complete
/// ones, skeletons whose GPUs and adapters are known by their PCI class only, and RCCL's dialect (version 2,
/// <xgmi>).
#pragma once

#include <string>

#include "topology/machine.hpp"
#include "topology/xml.hpp"

namespace tutti::topology {

/// From the root element. Throws Error(invalid_argument) with the line. What the file leaves open is in
/// `unseen`.
Machine from_nccl_xml(const XmlElement& system);

/// A file that NCCL loads, or RCCL where the GPUs are AMD's. Throws Error(invalid_argument) for devices
/// without a processor.
std::string to_nccl_xml(const Machine& machine);

}  // namespace tutti::topology
