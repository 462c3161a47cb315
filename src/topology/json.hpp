/// \file
/// tutti's own form of a machine: JSON that a person can read and write. Links name their ends ("gpu0").
#pragma once

#include <string>
#include <string_view>

#include "topology/machine.hpp"

namespace tutti::topology {

/// Ends with a line break.
std::string to_json(const Machine& machine);

/// Throws Error(invalid_argument) with the line where the text is no JSON, else with what is wrong in it.
Machine from_json(std::string_view text);

}  // namespace tutti::topology
