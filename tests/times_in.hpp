/// \file
/// How often words are in a text.
#pragma once

#include <string>

namespace tutti::test {

inline int times_in(const std::string& text, const std::string& words) {
  int found = 0;
  for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++found;
  return found;
}

}  // namespace tutti::test
