/// \file
/// Schedule to schedule: the same algorithm in other steps. The verifier proves what comes out.
#pragma once

#include <tutti/schedule.hpp>

namespace tutti {

/// A step that stores something in the caller's memory and sends it as well becomes two: what is sent is then
/// read from that memory. For transports that can send from there, so that nothing is copied for them.
Schedule sent_from_memory(Schedule schedule);

}  // namespace tutti
