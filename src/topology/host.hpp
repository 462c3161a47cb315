/// \file
/// Which host, for the purpose of sharing memory.
#pragma once

#include <array>
#include <cstddef>

namespace tutti::topology {

/// Equal for two processes when they run under one kernel, in one network namespace (abstract Unix sockets
/// are per network namespace: two namespaces count as two hosts) and one process-id namespace.
using HostId = std::array<std::byte, 64>;
HostId this_host();

}  // namespace tutti::topology
