/// \file
/// Where ranks are, as far as the choice of an algorithm goes.
#pragma once

#include <algorithm>
#include <string>
#include <tuple>

namespace tutti::tuning {

/// Ranks on each of `cpus` processors, which they share; 1 where each has its own, which 0 also says.
inline double crowd_of(int ranks, int cpus) {
  return cpus > 0 ? std::max(1.0, static_cast<double>(ranks) / cpus) : 1;
}

struct Scene {
  std::string transport = "shm";  ///< what joins hosts: "tcp" or "verbs"; "shm": all ranks are on one
  int ranks = 1;
  int host_size = 1;  ///< ranks that share memory, consecutive; not looked at where all do
  int cpus = 0;       ///< that the ranks of a host share; 0: each has its own
  double port = 0;    ///< bytes/s into and out of a host; 0: not known, or more than its ranks can do

  /// Ranks that share memory.
  [[nodiscard]] int together() const { return transport == "shm" ? ranks : host_size; }
  /// Ranks that share a processor.
  [[nodiscard]] double crowd() const { return crowd_of(together(), cpus); }
  bool operator==(const Scene&) const = default;
  bool operator<(const Scene& other) const {
    return std::tie(transport, ranks, host_size, cpus, port) <
           std::tie(other.transport, other.ranks, other.host_size, other.cpus, other.port);
  }
};

}  // namespace tutti::tuning
