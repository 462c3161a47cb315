/// \file
/// Ranks, links and ways are ints; vectors want std::size_t.
#pragma once

#include <cstddef>

namespace tutti::simulation {

constexpr std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace tutti::simulation
