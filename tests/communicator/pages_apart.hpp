/// \file
/// An input of two blocks that are far from each other.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>

#include "base/mappings.hpp"

namespace tutti::test {

/// Two pages of numbers, and between them `gap` bytes that nobody may touch, whole pages. They take no
/// memory.
class PagesApart {
 public:
  explicit PagesApart(std::size_t gap)
      : gap_(gap),
        memory_(::mmap(nullptr, bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_NE(memory_, MAP_FAILED);
    for (void* page : {memory_, static_cast<void*>(static_cast<std::byte*>(memory_) + page_bytes() + gap)})
      EXPECT_EQ(::mprotect(page, page_bytes(), PROT_READ | PROT_WRITE), 0);
  }
  PagesApart(const PagesApart&) = delete;
  PagesApart& operator=(const PagesApart&) = delete;
  ~PagesApart() { ::munmap(memory_, bytes()); }
  [[nodiscard]] float* data() const { return static_cast<float*>(memory_); }
  [[nodiscard]] std::size_t bytes() const { return 2 * page_bytes() + gap_; }
  /// Where the second one begins, in numbers.
  [[nodiscard]] std::size_t second() const { return (page_bytes() + gap_) / sizeof(float); }

 private:
  std::size_t gap_;
  void* memory_;
};

/// Bytes of a gap for which no copy has room.
inline constexpr std::size_t large_gap = std::size_t{64} << 30U;

}  // namespace tutti::test
