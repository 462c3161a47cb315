#include "topology/escape.hpp"

#include <fmt/format.h>

namespace tutti::topology {

std::string escaped_xml(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&' || c == '<' || c == '>' || c == '"')
      safe += fmt::format("&#{};", static_cast<int>(c));
    else if (static_cast<unsigned char>(c) >= 0x20)
      safe += c;
  }
  return safe;
}

}  // namespace tutti::topology
