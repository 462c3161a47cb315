/// \file
/// What ranks of one machine need to reach each other's memory.
#pragma once

#include <optional>
#include <string>

#include "doctor/finding.hpp"
#include "doctor/root.hpp"

namespace tutti::doctor {

/// Codes are those of errno; 0: it works.
struct SharedMemoryFacts {
  int memfd = 0;                      ///< making and mapping shared memory without a file system
  int unix_socket = 0;                ///< passing it on
  int attach = 0;                     ///< reading the memory of a process that is not one's own child
  std::optional<int> ptrace_scope{};  ///< kernel.yama.ptrace_scope
  int seccomp = 0;                    ///< 2: system calls are filtered, as in containers
};

/// Tries it all out, with a child process.
SharedMemoryFacts read_shared_memory(const Root& root);
Findings examine(const SharedMemoryFacts& facts);

}  // namespace tutti::doctor
