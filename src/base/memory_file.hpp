/// \file
/// Files that are memory only.
#pragma once

#include "base/file_descriptor.hpp"

namespace tutti {

/// An empty one that can be sealed, of no name but in /proc; nobody can execute it, where Linux can forbid
/// that (6.3): some systems permit no others (vm.memfd_noexec=2). Holds -1 when it cannot be made: errno says
/// why.
FileDescriptor make_memory_file(const char* name);

}  // namespace tutti
