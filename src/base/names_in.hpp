/// \file
/// What a directory holds, where neither its absence nor its end midway is a mistake.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace tutti {

/// The file names from `at` on, sorted; those read before it failed, where it does. Never `++at`, which
/// throws then.
template <class Iterator>
std::vector<std::string> names_from(Iterator at, std::error_code& failure) {
  std::vector<std::string> found;
  for (const Iterator end; !failure && at != end; at.increment(failure))
    found.push_back(at->path().filename().string());
  std::sort(found.begin(), found.end());
  return found;
}

/// Of a directory that cannot be read, or not to its end: what could be.
inline std::vector<std::string> names_in(const std::string& directory) {
  std::error_code failure;
  std::filesystem::directory_iterator first(directory, failure);
  return names_from(std::move(first), failure);
}

}  // namespace tutti
