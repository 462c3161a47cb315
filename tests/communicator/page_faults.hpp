/// \file
/// How often a test had to ask the system for a page.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdlib>
#include <memory>

#include "base/mappings.hpp"

namespace tutti::test {

/// Of this thread so far, that were met without a disk.
inline long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

/// Whether pages can be had ahead of their use: from Linux 5.14 on.
inline bool can_fault_in() {
#ifdef MADV_POPULATE_WRITE
  const std::size_t page = page_bytes();
  const std::unique_ptr<void, decltype(&std::free)> some(std::aligned_alloc(page, page), &std::free);
  return ::madvise(some.get(), page, MADV_POPULATE_WRITE) == 0;
#else
  return false;
#endif
}

}  // namespace tutti::test
