/// \file
/// Ranks that a tool starts itself.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>

#include "base/deadline.hpp"
#include "base/processors.hpp"
#include "base/system_error.hpp"
#include "bootstrap/launcher.hpp"

namespace tutti {

/// Throws CLI::ValidationError when `ranks` (of --ranks; 0: it was not given) are to be started in each of
/// several processes of a launcher; `instead`: what to do then; `timeout`: for a launcher to answer. Throws
/// as launch_from_environment, which it leaves alone: children of this process may still ask that.
inline void check_own_ranks(int ranks, std::chrono::milliseconds timeout,
                            const char* instead = "leave out --ranks, or start one process") {
  if (ranks == 0) return;
  const auto launcher = bootstrap::find_launcher(Deadline(timeout));
  const bootstrap::Launch& launch = launcher->identity();
  if (launch.size > 1)
    throw CLI::ValidationError(
        "--ranks", fmt::format("each of the {} processes that {} started would start {} ranks of its own; {}",
                               launch.size, launch.launcher, ranks, instead));
}

/// Processors that ranks share that this process starts: those that it may run on itself.
inline int own_cpus() {
  const auto count = static_cast<int>(allowed_processors().size());
  if (count == 0) throw_errno("sched_getaffinity");
  return count;
}

}  // namespace tutti
