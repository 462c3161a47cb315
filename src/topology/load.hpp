/// \file
/// A machine by the name of a built-in one, or from a file in any of the forms that tutti reads.
#pragma once

#include <string>
#include <string_view>

#include "topology/machine.hpp"

namespace tutti::topology {

/// `name_or_file`: a built-in name ("dgx-h100"), "this" for this machine, or a file: tutti's JSON, NCCL's or
/// RCCL's XML, hwloc's XML; told apart by their contents. Throws Error(invalid_argument) for what is none of
/// these, with the line where the file says one; Error(unsupported) for a form that was left out of this
/// build.
Machine load(const std::string& name_or_file);

/// The same from the contents of a file. `name`: what to call the machine.
Machine from_text(std::string_view text, const std::string& name);

}  // namespace tutti::topology
