/// \file
/// Sizes of this processor's caches.
#pragma once

#include <cstddef>

namespace tutti::topology {

/// Bytes of the largest cache that processor 0 reaches, as Linux tells, but at most 32 MiB: where it is
/// larger, all the package shares it, in a virtual machine with strangers. sysconf will not do: on AMD's
/// processors glibc 2.36 adds up the third-level caches of the whole package.
std::size_t last_cache_bytes();

}  // namespace tutti::topology
