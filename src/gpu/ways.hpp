/// \file
/// By what ways the ranks of a communicator talk, two by two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/setting.hpp"

namespace tutti::gpu {

/// The best first.
enum class Way : std::uint8_t {
  device,   ///< each reaches the other's device memory
  host,     ///< through page-locked host memory that both reach
  direct,   ///< a transport whose adapters read and write device memory
  network,  ///< through page-locked host memory of each, and a transport of the processors
};

/// What one end of a pair can do, or has been agreed, and why nothing better.
struct Proposal {
  Way way = Way::device;
  std::string why{};
};

struct Agreement {
  std::vector<Proposal> ways;  ///< of this rank, by peer; its own is `device`
  bool all_by_device = true;   ///< every pair of the group
  bool some_direct = false, some_by_network = false;
};

/// Every pair takes the worse of what its ends propose. Collective.
Agreement agree(const Setting& setting, const std::vector<Proposal>& mine);

}  // namespace tutti::gpu
