/// \file
/// Files that people give, whole.
#pragma once

#include <cstddef>
#include <string>

namespace tutti {

/// The contents of `file`. Throws Error(invalid_argument) `WHAT "FILE": ...` where it cannot be read, or
/// holds more than `most_file_bytes`.
std::string read_file(const std::string& what, const std::string& file);

inline constexpr std::size_t most_file_bytes = std::size_t{16} << 20U;

}  // namespace tutti
