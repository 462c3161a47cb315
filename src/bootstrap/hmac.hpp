/// \file
/// Keyed hashes and random bytes, by libsodium.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include "bootstrap/session.hpp"

namespace tutti::bootstrap {

using Digest = std::array<std::byte, 32>;

/// Fills `out` from the system's generator. Throws Error(system) when libsodium cannot start.
void random_bytes(std::span<std::byte> out);

/// HMAC-SHA-256 of `label` and the parts, one after the other. All callers pass parts of fixed sizes, so the
/// concatenation is unambiguous.
Digest hmac(std::span<const std::byte> key, std::string_view label,
            std::initializer_list<std::span<const std::byte>> parts);

/// Compares in constant time.
bool equal(const Digest& a, std::span<const std::byte, 32> b);

/// A secret made from text (a password, a job's name) or another secret, and a number; equal inputs give
/// equal secrets.
Secret derive(std::span<const std::byte> from, std::string_view label, std::uint64_t number);

}  // namespace tutti::bootstrap
