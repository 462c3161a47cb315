/// \file
/// Where ranks are, as far as the choice of an algorithm goes.
#pragma once

#include <string>
#include <tuple>

namespace tutti::tuning {

struct Scene {
  std::string transport = "shm";  ///< what joins hosts: "tcp" or "verbs"; "shm": all ranks are on one
  int ranks = 1;
  int host_size = 1;  ///< ranks that share memory, consecutive; not looked at where all do
  int cpus = 0;       ///< that the ranks of a host share; 0: each has its own, or what was measured knows
  double port = 0;    ///< bytes/s into and out of a host; 0: not known, or more than its ranks can do

  bool operator==(const Scene&) const = default;
  bool operator<(const Scene& other) const {
    return std::tie(transport, ranks, host_size, cpus, port) <
           std::tie(other.transport, other.ranks, other.host_size, other.cpus, other.port);
  }
};

}  // namespace tutti::tuning
