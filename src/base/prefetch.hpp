/// \file
/// Cache lines asked for ahead of use.
#pragma once

#include <cstddef>

namespace tutti {

/// Asks for the cache line of `at` in order to write it, which takes it from whoever read it last. Any
/// address will do.
inline void prefetch_for_write(const std::byte* at) {
#if defined(__x86_64__)
  // The builtin is a prefetch for reading unless PRFCHW is enabled.
  asm volatile("prefetchw %0" : : "m"(*at));
#else
  __builtin_prefetch(at, 1);
#endif
}

}  // namespace tutti
