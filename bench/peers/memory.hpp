/// \file
/// Buffers as every library gets them.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <system_error>

namespace bench {

/// Private anonymous memory in pages of 4 KiB, at least one, all touched.
class Memory {
 public:
  explicit Memory(std::size_t bytes)
      : bytes_((std::max(bytes, std::size_t{1}) + page - 1) / page * page),
        data_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED)
      throw std::system_error(errno, std::generic_category(), "mmap of " + std::to_string(bytes_) + " bytes");
    (void)::madvise(data_, bytes_, MADV_NOHUGEPAGE);  // fails only where huge pages do not exist
    std::memset(data_, 0, bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::munmap(data_, bytes_); }

  [[nodiscard]] float* floats() const { return static_cast<float*>(data_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t page = 4096;
  std::size_t bytes_;
  void* data_;
};

}  // namespace bench
