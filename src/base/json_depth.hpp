/// \file
/// How deep JSON from strangers may nest: nlohmann's parser would take 64 bytes of memory for every bracket.
#pragma once

#include <cstddef>
#include <string_view>

namespace tutti {

inline constexpr int most_json_depth = 64;  ///< as of XML (topology/xml.hpp); our own forms need 5

/// Whether arrays and objects nest deeper than `most_json_depth`. Of what is no JSON, any answer: a parser
/// refuses it where it ceases to be, and up to there the answer holds.
constexpr bool nests_too_deep(std::string_view json) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > most_json_depth) return true;
  }
  return false;
}

}  // namespace tutti
