/// \file
/// Whether sanitizers watch. What they look for shows itself with few ranks, and takes them many times as
/// long.
#pragma once

namespace tutti {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

}  // namespace tutti
