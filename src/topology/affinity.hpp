/// \file
/// Which port of a network adapter belongs to which GPU (or processor): the one on the best path, shared out
/// evenly among those that are equally near.
#pragma once

#include <span>
#include <vector>

#include "topology/machine.hpp"

namespace tutti::topology {

/// For each of `devices`, its ports: first the one to use, then those that would otherwise have nobody and
/// are as near, for striping. Empty where the machine has none that a path leads to. Ports that speak RDMA
/// are taken before those that do not. Two devices may share a port; then the narrower ones serve fewer.
std::vector<std::vector<NodeId>> ports_of(const Machine& machine, std::span<const NodeId> devices);

}  // namespace tutti::topology
