/// \file
/// Copies of up to a cache line: a call of memcpy costs more than they do.
#pragma once

#include <cstddef>
#include <cstring>

namespace tutti {

/// Copies `N` to 2 `N` bytes as two blocks that may overlap.
template <std::size_t N>
inline void copy_two(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::byte first[N];
  std::byte last[N];
  std::memcpy(first, from, N);
  std::memcpy(last, from + (bytes - N), N);
  std::memcpy(to, first, N);
  std::memcpy(to + (bytes - N), last, N);
}

inline constexpr std::size_t brief_copy_most = 64;

/// At most `brief_copy_most` bytes. Either pointer may be null when there are none.
inline void copy_brief(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes >= 16) return bytes >= 32 ? copy_two<32>(to, from, bytes) : copy_two<16>(to, from, bytes);
  if (bytes >= 8) return copy_two<8>(to, from, bytes);
  if (bytes >= 4) return copy_two<4>(to, from, bytes);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
}

}  // namespace tutti
