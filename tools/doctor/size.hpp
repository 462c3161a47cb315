/// \file
/// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace tutti::doctor {

/// "8 MiB", "23.5 GiB", "100 B".
inline std::string bytes_in_words(std::uint64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit < 5; ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value,
                     value < 100 && value != static_cast<double>(static_cast<int>(value)) ? 1 : 0,
                     units[unit]);
}

}  // namespace tutti::doctor
