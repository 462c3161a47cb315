/// \file
/// How much memory may be used and locked, and in pages of which size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.hpp"
#include "doctor/root.hpp"

namespace tutti::doctor {

struct HugePages {
  std::uint64_t page_bytes = 0, total = 0, free = 0;
};

struct MemoryFacts {
  std::optional<std::uint64_t> memlock{};  ///< bytes; none: unlimited
  bool may_lock_all = false;               ///< CAP_IPC_LOCK: the limit does not bind
  bool rdma = false;                       ///< there is a device that needs locked memory
  std::uint64_t total = 0, available = 0;
  std::optional<std::uint64_t> group_limit{};  ///< of the control group, bytes
  std::vector<HugePages> huge_pages{};
  std::string transparent{};         ///< "always", "madvise", "never"; empty: the kernel has none
  std::string transparent_shared{};  ///< for memfd
};

MemoryFacts read_memory(const Root& root);
Findings examine(const MemoryFacts& facts);

}  // namespace tutti::doctor
