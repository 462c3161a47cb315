/// \file
/// Sizes of this processor's caches.
#pragma once

#include <cstddef>

namespace tutti::topology {

/// Bytes of the largest cache that processor 0 reaches, as Linux tells; 32 MiB where it does not. sysconf
/// will not do: on AMD's processors glibc 2.36 adds up the third-level caches of the whole package.
std::size_t last_cache_bytes();

}  // namespace tutti::topology
