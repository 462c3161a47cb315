/// \file
/// Pages that a first call would fault in, faulted in ahead of it.
#pragma once

#include <cstddef>

namespace tutti {

/// [data, data + bytes), and what shares pages with it, to be written. Where the system can (Linux 5.14).
void fault_in(const void* data, std::size_t bytes) noexcept;

/// Memory that this thread's next allocations get, unless somebody else is faster.
void fault_in_heap();

}  // namespace tutti
