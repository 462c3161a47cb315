/// \file
/// What processes of one host know that are to share memory.
#pragma once

#include <array>
#include <cstddef>

namespace tutti::transport::shm {

using Key = std::array<std::byte, 16>;

}  // namespace tutti::transport::shm
