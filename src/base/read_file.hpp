/// \file
/// Files that people give, whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

/// The contents of `file`. Throws Error(invalid_argument) `WHAT "FILE": WHY REMEDY` where it cannot be read,
/// or holds more than `most_file_bytes`.
std::string read_file(const std::string& what, const std::string& file, std::string_view remedy = {});

inline constexpr std::size_t most_file_bytes = std::size_t{16} << 20U;

}  // namespace tutti
