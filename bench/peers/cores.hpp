/// \file
/// Which core a rank runs on.
#pragma once

#include <sched.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace bench {

/// The rank that the launcher gave, known before the library is initialised: threads that it starts are then
/// bound, too.
inline int launched_rank() {
  for (const char* variable : {"TUTTI_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"})
    if (const char* value = std::getenv(variable)) return std::stoi(value);
  return 0;
}

/// Binds this thread, and threads that it starts later, to the core whose turn it is. No cores: leaves it
/// where it is.
inline void pin(int rank, const std::vector<int>& cores) {
  if (cores.empty()) return;
  const int core = cores[static_cast<std::size_t>(rank) % cores.size()];
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  if (::sched_setaffinity(0, sizeof(set), &set) == 0) return;
  throw std::system_error(errno, std::generic_category(),
                          "binding rank " + std::to_string(rank) + " to core " + std::to_string(core));
}

/// Ranks on the core of rank `rank`, itself included; not bound, as many as if each core had as many.
inline int ranks_on_core(int rank, int size, const std::vector<int>& cores) {
  const int there =
      cores.empty() ? static_cast<int>(std::thread::hardware_concurrency()) : static_cast<int>(cores.size());
  if (there <= 0) return 1;
  if (cores.empty()) return (size + there - 1) / there;
  return (size - 1 - rank % there) / there + 1;
}

}  // namespace bench
