/// \file
/// System calls that signals of the program must not cut short.
#pragma once

#include <cerrno>

namespace tutti {

/// Calls again while it fails with EINTR.
template <class Call>
auto uninterrupted(Call call) {
  for (;;)
    if (const auto result = call(); result != -1 || errno != EINTR) return result;
}

}  // namespace tutti
