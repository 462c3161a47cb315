/// \file
/// Which core a rank runs on.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "../../src/base/processors.hpp"

namespace bench {

/// The rank that the launcher gave, known before the library is initialised: threads that it starts are then
/// bound, too.
inline int launched_rank() {
  for (const char* variable : {"TUTTI_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"})
    if (const char* value = std::getenv(variable)) return std::stoi(value);
  return 0;
}

/// Those that this thread may run on: of a container or a job that is often not all.
inline std::vector<int> allowed_cores() {
  std::vector<int> cores = tutti::allowed_processors();
  if (cores.empty()) throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
  return cores;
}

/// Binds this thread, and threads that it starts later, to the core whose turn it is. No cores: leaves it
/// where it is.
inline void pin(int rank, const std::vector<int>& cores) {
  if (cores.empty()) return;
  const int core = cores[static_cast<std::size_t>(rank) % cores.size()];
  if (tutti::run_on({core})) return;
  throw std::system_error(errno, std::generic_category(),
                          "binding rank " + std::to_string(rank) + " to core " + std::to_string(core));
}

/// Over how many cores ranks are spread in turn; not bound, it is taken to be all there are.
inline int cores_in_use(const std::vector<int>& cores) {
  const std::size_t there = cores.empty() ? std::thread::hardware_concurrency() : cores.size();
  return std::max(1, static_cast<int>(there));
}

}  // namespace bench
