#include "topology/escape.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace tutti::topology {

namespace {

/// Bytes of the character in UTF-8 that `text`, which is not empty, begins with; 0: it is none that XML has.
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t at) -> unsigned {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc0 || first > 0xf4) return 0;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  unsigned code = first & (0xffU >> (size + 1));
  for (std::size_t at = 1; at < size; ++at) {
    if ((byte(at) & 0xc0U) != 0x80) return 0;
    code = code << 6U | (byte(at) & 0x3fU);
  }
  constexpr std::array<unsigned, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  const bool is_none = code == 0xfffe || code == 0xffff || code > 0x10ffff;
  return code < least.at(size) || is_surrogate || is_none ? 0 : size;
}

}  // namespace

std::string escaped_xml(std::string_view text) {
  std::string safe;
  for (std::size_t size = 0; !text.empty(); text.remove_prefix(size)) {
    const char c = text.front();
    size = character_size(text);
    if (size == 0) {
      safe += "\xef\xbf\xbd";
      size = 1;
    } else if (c == '&' || c == '<' || c == '>' || c == '"') {
      safe += fmt::format("&#{};", static_cast<int>(c));
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      safe += text.substr(0, size);
    }
  }
  return safe;
}

}  // namespace tutti::topology
