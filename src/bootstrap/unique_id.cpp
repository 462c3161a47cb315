// The printable form of a unique id: "tutti-" and its bytes in hexadecimal.
#include <tutti/unique_id.hpp>

#include <sodium.h>

#include <tutti/error.hpp>

#include "bootstrap/rendezvous.hpp"

namespace tutti {
namespace {
constexpr std::string_view prefix = "tutti-";
}

std::string UniqueId::to_string() const {
  std::string hex(2 * size + 1, '\0');
  ::sodium_bin2hex(hex.data(), hex.size(), reinterpret_cast<const unsigned char*>(bytes.data()), size);
  hex.pop_back();
  return std::string(prefix) + hex;
}

UniqueId UniqueId::parse(std::string_view text) {
  UniqueId id;
  const auto hex = text.substr(text.starts_with(prefix) ? prefix.size() : 0);
  std::size_t parsed = 0;
  if (!text.starts_with(prefix) || hex.size() != 2 * size ||
      ::sodium_hex2bin(reinterpret_cast<unsigned char*>(id.bytes.data()), size, hex.data(), hex.size(),
                       nullptr, &parsed, nullptr) != 0 ||
      parsed != size)
    throw Error(ErrorCode::invalid_argument,
                "not a unique id: expected \"tutti-\" and " + std::to_string(2 * size) +
                    " hexadecimal digits, as UniqueId::to_string writes, but got " +
                    std::to_string(text.size()) + " characters");
  static_cast<void>(bootstrap::read(id));
  return id;
}

}  // namespace tutti
