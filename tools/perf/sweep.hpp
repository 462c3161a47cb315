/// \file
/// One rank's work: every size, type, reduction and root that was asked for.
#pragma once

#include <cstdio>

#include "perf/settings.hpp"

namespace tutti::perf {

/// Measures, checks and reports (rank 0 prints to `to`). Collective. False on rank 0 when a value was wrong,
/// and on it alone: launchers end all ranks as one fails, and it is rank 0 that still has to say so. Throws
/// Error(invalid_argument) for a root or an operation that needs more ranks.
bool sweep(Communicator& comm, const Settings& settings, std::FILE* to);

}  // namespace tutti::perf
