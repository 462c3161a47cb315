/// \file
/// Whether sanitizers watch. What they look for shows itself with few ranks, and takes them many times as
/// long.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TUTTI_SANITIZED 1
#endif

namespace tutti {

#ifdef TUTTI_SANITIZED
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

}  // namespace tutti
