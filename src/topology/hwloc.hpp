/// \file
/// Machines as hwloc sees them: the files that `lstopo file.xml` writes (versions 2 and 3 of the form), and
/// this machine. Files are read here and not by hwloc: those of a newer hwloc are too, and mistakes have a
/// line.
#pragma once

#include <set>
#include <string>

#include "topology/machine.hpp"
#include "topology/xml.hpp"

namespace tutti::topology {

/// From the root element. `computing`: PCI addresses of GPUs that are known otherwise; display controllers
/// are GPUs only where a driver computes on them. Throws Error(invalid_argument) with the line.
Machine from_hwloc_xml(const XmlElement& topology, const std::set<std::string>& computing = {});

/// What hwloc sees of this machine, as such a file: all processors, also those that this process may not use,
/// bridges, GPUs and adapters. Throws Error(system).
std::string hwloc_xml_of_this_machine();

}  // namespace tutti::topology
