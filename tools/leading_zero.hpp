/// \file
/// What CLI11 and strtol take for octal.
#pragma once

#include <algorithm>
#include <string_view>

namespace tutti {

/// Whether CLI11 would read the number as octal.
inline bool has_leading_zero(std::string_view number) {
  number.remove_prefix(std::min(number.find_first_not_of(" +-"), number.size()));
  return number.size() > 1 && number[0] == '0' && number[1] >= '0' && number[1] <= '9';
}

}  // namespace tutti
