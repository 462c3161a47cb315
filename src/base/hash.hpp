/// \file
/// Hashes that are the same in every process, which those of std::hash need not be.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 29);
}

/// FNV-1a; `h`: of what comes before.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t h = 0xcbf29ce484222325ULL) {
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return h;
}

}  // namespace tutti
