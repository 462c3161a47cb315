#include "topology/cache.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace tutti::topology {

std::size_t last_cache_bytes() {
  std::size_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::size_t kibibytes = 0;
    char unit = 0;
    if (file >> kibibytes >> unit && unit == 'K') largest = std::max(largest, kibibytes << 10U);
  }
  constexpr std::size_t most = std::size_t{32} << 20U;
  return largest != 0 ? std::min(largest, most) : most;
}

}  // namespace tutti::topology
