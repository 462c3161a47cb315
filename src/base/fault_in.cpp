#include "base/fault_in.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <memory>

#include "base/mappings.hpp"

namespace tutti {

void fault_in([[maybe_unused]] const void* data, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef MADV_POPULATE_WRITE
  const auto address = reinterpret_cast<std::uintptr_t>(data), begin = address / page_bytes() * page_bytes();
  // NOLINTNEXTLINE(performance-no-int-to-ptr): rounded to a page
  (void)::madvise(reinterpret_cast<void*>(begin), address + bytes - begin, MADV_POPULATE_WRITE);
#endif
}

void fault_in_heap() {
  // The C library gives more back to the system when it is freed (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD).
  constexpr std::size_t bytes = std::size_t{64} << 10U;
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  fault_in(memory.get(), bytes);
}

}  // namespace tutti
