/// \file
/// Processors against ranks, and NUMA nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.hpp"
#include "doctor/root.hpp"

namespace tutti::doctor {

/// The ranks of this machine, as their launcher bound them.
struct RanksHere {
  int count = 1;
  int processors = 0;  ///< that they may run on, all together
};

struct ProcessorFacts {
  RanksHere ranks{};
  int online = 0;
  double load = 0;                   ///< runnable processes, mean of the last minute
  std::optional<double> quota{};     ///< processors' worth of time that the control group grants
  std::vector<std::string> nodes{};  ///< "0-15", the processors of each NUMA node
};

ProcessorFacts read_processors(const Root& root, const RanksHere& ranks);
Findings examine(const ProcessorFacts& facts);

}  // namespace tutti::doctor
