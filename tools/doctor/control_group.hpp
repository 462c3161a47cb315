/// \file
/// The control groups that this process is in: limits of each hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/root.hpp"

namespace tutti::doctor {

struct ControlGroup {
  std::string directory;
  bool v2 = false;  ///< of version 2, whose files have other names
};

/// From this process's group up to the root, of both versions. `controller`: "cpu" or "memory".
std::vector<ControlGroup> control_groups(const Root& root, std::string_view controller);

}  // namespace tutti::doctor
