/// \file
/// Which memory of this process windows are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fork_guard.hpp"

namespace tutti::detail {

/// Says so of `memory` as long as it lives. Thread safe.
class ExposedMemory {
 public:
  explicit ExposedMemory(std::span<const std::byte> memory);
  ~ExposedMemory();
  ExposedMemory(const ExposedMemory&) = delete;
  ExposedMemory& operator=(const ExposedMemory&) = delete;
  /// Whether some window's shares a byte with `memory`.
  static bool overlaps(std::span<const std::byte> memory);

 private:
  std::span<const std::byte> memory_;
  std::uint64_t generation_ = fork_generation();
};

}  // namespace tutti::detail
