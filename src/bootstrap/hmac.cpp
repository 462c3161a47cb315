#include "bootstrap/hmac.hpp"

#include <sodium.h>

#include <algorithm>

namespace tutti::bootstrap {
namespace {

void start_sodium() {
  static const int result = ::sodium_init();
  if (result < 0)
    throw Error(ErrorCode::system, "libsodium could not be initialised: no source of random numbers");
}

const unsigned char* raw(const void* data) { return static_cast<const unsigned char*>(data); }

}  // namespace

void random_bytes(std::span<std::byte> out) {
  start_sodium();
  ::randombytes_buf(out.data(), out.size());
}

Digest hmac(std::span<const std::byte> key, std::string_view label,
            std::initializer_list<std::span<const std::byte>> parts) {
  start_sodium();
  crypto_auth_hmacsha256_state state;
  ::crypto_auth_hmacsha256_init(&state, raw(key.data()), key.size());
  ::crypto_auth_hmacsha256_update(&state, raw(label.data()), label.size());
  for (const auto part : parts) ::crypto_auth_hmacsha256_update(&state, raw(part.data()), part.size());
  Digest digest;
  static_assert(digest.size() == crypto_auth_hmacsha256_BYTES);
  ::crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

bool equal(const Digest& a, std::span<const std::byte, 32> b) {
  return ::sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Secret derive(std::span<const std::byte> from, std::string_view label, std::uint64_t number) {
  const auto digest = hmac(from, label, {std::as_bytes(std::span(&number, 1))});
  Secret secret;
  std::copy_n(digest.begin(), secret.size(), secret.begin());
  return secret;
}

}  // namespace tutti::bootstrap
