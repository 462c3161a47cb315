/// \file
/// Files that people give, whole.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

inline constexpr std::size_t most_file_bytes = std::size_t{16} << 20U;
/// For a FIFO, say, whose writer is not there yet, or is busy; other ranks may wait for what stands there.
inline constexpr std::chrono::milliseconds file_patience{20'000};

/// The contents of `file`. Throws Error(invalid_argument) `WHAT "FILE": WHY REMEDY` where it cannot be read,
/// holds more than `most_file_bytes`, or nothing comes from it for `patience`.
std::string read_file(const std::string& what, const std::string& file, std::string_view remedy = {},
                      std::chrono::milliseconds patience = file_patience);

}  // namespace tutti
