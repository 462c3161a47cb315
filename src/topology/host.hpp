/// \file
/// Which host, for the purpose of sharing memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti::topology {

/// Equal for two processes when they run under one kernel, in one network namespace (abstract Unix sockets
/// are per network namespace: two namespaces count as two hosts) and one process-id namespace.
using HostId = std::array<std::byte, 64>;
HostId this_host();

/// Equal for two processes that have the same loopback interface: one kernel, one network namespace. 0: not
/// known.
std::uint64_t this_loopback();

}  // namespace tutti::topology
