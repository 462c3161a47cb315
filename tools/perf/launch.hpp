/// \file
/// Ranks as the settings say: on this host without a launcher, or this process as one of a launcher's.
#pragma once

#include <functional>

#include "perf/settings.hpp"

namespace tutti::perf {

/// What a rank does; true when all was well.
using Body = std::function<bool(Communicator&)>;

/// Runs `body` on `settings.ranks` children of this process and waits for them. True when all children ended
/// well; one that is killed is reported on stderr in the name of the tool, and so are those that then do not
/// end in time and are killed here. Returns in the children as well: what `body` returned. Throws Error, in
/// the children Printed after an error in the rank's name.
bool run_processes(const char* tool, const Settings& settings, const Body& body);

/// Likewise, or on so many threads of this process if `settings.threads`, or, where `settings.ranks` is 0, as
/// a launcher's rank. What a rank throws, be it that it makes no communicator, is printed with its number
/// after the name of the tool, and Printed is thrown; of threads, also what run_local throws.
bool run_ranks(const char* tool, const Settings& settings, const Body& body);

}  // namespace tutti::perf
