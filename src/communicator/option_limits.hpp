/// \file
/// What Options may be, whether a program sets them or variables do.
#pragma once

namespace tutti {

inline constexpr int most_ranks = 1 << 20;
inline constexpr int most_tcp_streams = 16;

}  // namespace tutti
