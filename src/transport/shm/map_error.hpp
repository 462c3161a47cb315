/// \file
/// What mmap(2) refuses shared memory with, as an Error.
#pragma once

#include <cstddef>
#include <string_view>

namespace tutti::transport::shm {

/// Throws Error(system) with the remedy: `what`, "the shared memory of a communicator" say, so many bytes,
/// cannot be mapped for the reason `why`, an errno.
[[noreturn]] void throw_unmapped(std::string_view what, std::size_t bytes, int why);

}  // namespace tutti::transport::shm
