#pragma once

#include <cstddef>

namespace tutti::simulation {

inline constexpr std::size_t MiB = std::size_t{1} << 20;

}  // namespace tutti::simulation
