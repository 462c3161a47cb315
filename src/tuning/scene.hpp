/// \file
/// Where ranks are, as far as the choice of an algorithm goes.
#pragma once

#include <compare>
#include <string>

namespace tutti::tuning {

struct Scene {
  std::string transport = "shm";  ///< what joins hosts: "tcp" or "verbs"; "shm": all ranks are on one
  int ranks = 1;
  int host_size = 1;  ///< ranks that share memory, consecutive; not looked at where all do
  double port = 0;    ///< bytes/s into and out of a host; 0: not known, or more than its ranks can do
  auto operator<=>(const Scene&) const = default;
};

}  // namespace tutti::tuning
