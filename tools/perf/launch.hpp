/// \file
/// Ranks on this host without a launcher.
#pragma once

#include <functional>

#include "perf/settings.hpp"

namespace tutti::perf {

/// What a rank does; true when all was well.
using Body = std::function<bool(Communicator&)>;

/// Runs `body` on `settings.ranks` threads of this process. Throws as run_local does.
bool run_threads(const Settings& settings, const Body& body);

/// Runs `body` on `settings.ranks` children of this process and waits for them. True when all children ended
/// well; one that is killed is reported on stderr, and so are those that then do not end in time and are
/// killed here. Returns in the children as well: what `body` returned. Throws Error in both.
bool run_processes(const Settings& settings, const Body& body);

}  // namespace tutti::perf
