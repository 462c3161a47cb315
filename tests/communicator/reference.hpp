/// \file
/// What exercises put in and expect, element by element. Compiled without sanitizers and optimised, or tests
/// would spend most of their time here: memory that other threads or the library touch is not passed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "communicator/exercise.hpp"

namespace tutti::test {

/// A hash of both.
constexpr std::uint32_t mix(std::uint32_t a, std::uint32_t b) {
  std::uint32_t h = a * 0x9E3779B1U ^ (b + 0x7F4A7C15U) * 0x85EBCA6BU;
  h = (h ^ h >> 15) * 0x2C1B3C6DU;
  return h ^ h >> 13;
}

/// `count` elements of the input of `rank`, from `first` on; valid until this thread asks for others.
std::span<const std::byte> inputs(const Exercise& exercise, Rank rank, std::size_t first, std::size_t count);
/// The same elements of the reduction over all ranks; valid as long.
std::span<const std::byte> reductions(const Exercise& exercise, int ranks, std::size_t first,
                                      std::size_t count);

}  // namespace tutti::test
