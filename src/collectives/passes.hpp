/// \file
/// Schedule to schedule: the same algorithm in other steps. The verifier proves what comes out.
#pragma once

#include <tutti/schedule.hpp>

namespace tutti {

/// A step that stores something in the caller's memory and sends it as well becomes two: what is sent is then
/// read from that memory. For transports that can send from there, so that nothing is copied for them.
Schedule sent_from_memory(Schedule schedule);

/// The lanes of each rank become one: all steps of the first, then those of the next. An all_to_all that
/// sends in one lane and receives in another holds in place then, since each piece leaves before another
/// comes.
Schedule in_turn(Schedule schedule);

}  // namespace tutti
