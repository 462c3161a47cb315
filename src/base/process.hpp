/// \file
/// Whether another process of this process-id namespace still runs.
#pragma once

#include <sys/types.h>

namespace tutti {

/// True once all threads of `process` have ended, also while its parent has not waited for it. False when
/// that cannot be found out, or another process has its number by now. Never blocks; a few system calls.
bool has_ended(pid_t process);

}  // namespace tutti
