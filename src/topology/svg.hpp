/// \file
/// A drawing of a machine: processors above, what hangs on them below, NVLinks at the bottom. Lines are as
/// thick as they are fast; dashed ones have a guessed rate.
#pragma once

#include <string>

#include "topology/machine.hpp"

namespace tutti::topology {

/// A whole SVG document.
std::string to_svg(const Machine& machine);

}  // namespace tutti::topology
