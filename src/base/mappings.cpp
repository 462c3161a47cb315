#include "base/mappings.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "base/file_descriptor.hpp"
#include "base/system_error.hpp"

namespace tutti {

namespace {

constexpr std::size_t smallest_page = 4096;
constexpr std::size_t largest_huge_page = std::size_t{2} << 20U;  // of larger ones buffers hold few

#ifdef MADV_COLLAPSE
constexpr int collapse = MADV_COLLAPSE;
#else
constexpr int collapse = 25;  // linux/mman.h; Debian 12's C library is older than it
#endif

// NOLINTNEXTLINE(performance-no-int-to-ptr): addresses are computed
std::byte* at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

// All pages of [data, data + bytes), which lie in mappings, are there, and this process's alone: what a child
// of fork still shares, and the page of zeros that stands for all that was only read, would become more
// memory.
bool held_alone(int pagemap, std::uintptr_t data, std::size_t bytes) {
  constexpr std::uint64_t present = std::uint64_t{1} << 63U, exclusive = std::uint64_t{1} << 56U;
  std::array<std::uint64_t, largest_huge_page / smallest_page> pages{};
  const std::size_t count = bytes / page_bytes(), wanted = count * sizeof pages[0];
  const auto place = static_cast<off_t>(data / page_bytes() * sizeof pages[0]);
  if (::pread(pagemap, pages.data(), wanted, place) != static_cast<ssize_t>(wanted)) return false;
  return std::all_of(pages.begin(), pages.begin() + static_cast<std::ptrdiff_t>(count),
                     [](std::uint64_t state) { return (state & present) != 0 && (state & exclusive) != 0; });
}

}  // namespace

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

bool private_anonymous(const std::byte* data, std::size_t bytes) {
  std::ifstream maps("/proc/self/maps");
  if (!maps) throw_errno("cannot read /proc/self/maps, which says what memory this is");
  auto next = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = next + bytes;
  for (std::string line; next < end && std::getline(maps, line);) {
    std::uintptr_t from = 0, to = 0;
    std::uint64_t inode = 0;
    char mode[5] = "";
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %" SCNu64, &from, &to, mode,
                    &inode) != 4)
      continue;
    if (to <= next) continue;
    if (from > next || inode != 0 || std::strcmp(mode, "rw-p") != 0) return false;
    next = to;
  }
  return next >= end;
}

std::size_t huge_page_bytes() {
  static const std::size_t bytes = [] {
    const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
    std::string enabled;
    std::size_t size = 0;
    if (!std::getline(std::ifstream(folder + "enabled"), enabled) ||
        enabled.find("[never]") != std::string::npos || !(std::ifstream(folder + "hpage_pmd_size") >> size))
      return std::size_t{0};
    return size <= largest_huge_page ? size : 0;
  }();
  return bytes;
}

void put_into_huge_pages(const std::byte* data, std::size_t bytes) noexcept try {
  const std::size_t huge = huge_page_bytes();
  if (huge == 0 || bytes == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  std::uintptr_t from = begin / huge * huge, to = (begin + bytes + huge - 1) / huge * huge;
  if (from != begin && !private_anonymous(at(from), huge)) from += huge;
  if (to != begin + bytes && from < to && !private_anonymous(at(to - huge), huge)) to -= huge;
  if (from >= to || !private_anonymous(at(from), to - from)) return;
  const FileDescriptor pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  // Each call waits for all processors once: as few as there are gaps.
  for (std::uintptr_t first = from; from < to; first = from) {
    while (from < to && held_alone(pagemap.get(), from, huge)) from += huge;
    if (first != from) (void)::madvise(at(first), from - first, collapse);
    from += huge;
  }
} catch (...) {
  return;  // out of memory, or of descriptors: pages stay small
}

}  // namespace tutti
