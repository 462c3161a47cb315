/// \file
/// One rank's work: every size, type, reduction and root that was asked for.
#pragma once

#include <cstdio>

#include "perf/settings.hpp"

namespace tutti::perf {

/// Measures, checks and reports (rank 0 prints to `to`). Collective. True when no value was wrong; equal on
/// all ranks. Throws Error(invalid_argument) for a root or an operation that needs more ranks.
bool sweep(Communicator& comm, const Settings& settings, std::FILE* to);

}  // namespace tutti::perf
