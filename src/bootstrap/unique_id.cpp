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
  const auto refuse = [](const std::string& found) {
    throw Error(ErrorCode::invalid_argument,
                "not a unique id: expected \"tutti-\" and " + std::to_string(2 * size) +
                    " hexadecimal digits, as UniqueId::to_string writes, but " + found);
  };
  if (!text.starts_with(prefix)) refuse("it begins with something else");
  if (text.size() != prefix.size() + 2 * size) refuse("got " + std::to_string(text.size()) + " characters");
  // Where it stands and not what it is: the digits hold a secret.
  const auto wrong = text.find_first_not_of("0123456789abcdefABCDEF", prefix.size());
  if (wrong != std::string_view::npos) refuse("character " + std::to_string(wrong + 1) + " is none");
  UniqueId id;
  ::sodium_hex2bin(reinterpret_cast<unsigned char*>(id.bytes.data()), size, text.data() + prefix.size(),
                   2 * size, nullptr, nullptr, nullptr);
  static_cast<void>(bootstrap::read(id));
  return id;
}

}  // namespace tutti
