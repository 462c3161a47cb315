/// \file
/// Buffers as every library gets them.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>

namespace bench {

/// What large buffers consist of: pages of 4 KiB, transparent huge pages, or what this system gives to whom
/// asks for nothing (/sys/kernel/mm/transparent_hugepage/enabled).
enum class Pages { small, huge, unadvised };

/// How a program got its buffers.
struct Kind {
  Pages pages = Pages::unadvised;
  std::size_t begin = 0;  ///< bytes behind a page's begin where a buffer begins: 16 is what malloc gives
};

/// Private anonymous memory, at least a page, all touched. It begins `begin` bytes behind a huge page's
/// boundary.
class Memory {
 public:
  explicit Memory(std::size_t bytes, const Kind& kind = {})
      : begin_(kind.begin),
        bytes_((std::max(bytes, std::size_t{1}) + begin_ + page - 1) / page * page),
        mapped_(bytes_ + huge_page),
        mapping_(::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (mapping_ == MAP_FAILED)
      throw std::system_error(errno, std::generic_category(), "mmap of " + std::to_string(bytes_) + " bytes");
    data_ = mapping_;
    std::size_t space = mapped_;
    std::align(huge_page, bytes_, data_, space);
    if (kind.pages != Pages::unadvised)  // fails only where huge pages do not exist
      (void)::madvise(data_, bytes_, kind.pages == Pages::small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    std::memset(data_, 0, bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::munmap(mapping_, mapped_); }

  [[nodiscard]] float* floats() const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(data_) + begin_);
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_ - begin_; }

 private:
  static constexpr std::size_t page = 4096, huge_page = std::size_t{2} << 20U;
  std::size_t begin_, bytes_, mapped_;
  void *mapping_, *data_;
};

}  // namespace bench
