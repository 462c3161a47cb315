#include "communicator/host_buffers.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include <tutti/error.hpp>

namespace tutti {

namespace {

/// cuPointerGetAttribute and what it is asked, of CUDA's driver API (cuda.h; its binary interface is stable).
using GetAttribute = int (*)(void* value, int attribute, unsigned long long pointer);
constexpr int memory_type = 2, is_managed = 8;       // CU_POINTER_ATTRIBUTE_...
constexpr unsigned type_host = 1, type_unified = 4;  // CU_MEMORYTYPE_...

/// Libraries that this process has loaded so far.
unsigned long long loaded_libraries() {
  unsigned long long count = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        *static_cast<unsigned long long*>(into) = info->dlpi_adds;
        return 1;
      },
      &count);
  return count;
}

// Who has memory of a device has loaded the driver. It is looked for again when another library was loaded.
GetAttribute driver() noexcept {
  static std::atomic<GetAttribute> found{nullptr};
  static std::atomic<unsigned long long> looked_at{0};
  if (const GetAttribute function = found.load(std::memory_order_acquire)) return function;
  const unsigned long long libraries = loaded_libraries();
  // Another thread may have found it since.
  if (libraries == looked_at.load(std::memory_order_acquire)) return found.load(std::memory_order_acquire);
  if (void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD))  // for good: it is not closed
    found.store(reinterpret_cast<GetAttribute>(::dlsym(library, "cuPointerGetAttribute")),
                std::memory_order_release);
  looked_at.store(libraries, std::memory_order_release);
  return found.load(std::memory_order_acquire);
}

}  // namespace

Owner owner_of(const void* pointer) noexcept {
  const GetAttribute attribute = driver();
  if (attribute == nullptr) return Owner::host;
  const auto address = static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(pointer));
  unsigned type = 0, managed = 0;
  // It fails for what CUDA does not know, and before CUDA is started.
  if (attribute(&type, memory_type, address) != 0 || type == 0) return Owner::host;
  if (type == type_host || type == type_unified) return Owner::pinned;
  return attribute(&managed, is_managed, address) == 0 && managed != 0 ? Owner::pinned : Owner::device;
}

bool is_lent(const void* pointer, std::size_t bytes) noexcept {
  std::array<std::byte, 2> ends;
  auto* const memory = static_cast<std::byte*>(const_cast<void*>(pointer));  // only read
  const iovec into{ends.data(), ends.size()};
  const std::array<iovec, 2> from{{{memory, 1}, {memory + bytes - 1, 1}}};
  const ssize_t got = ::process_vm_readv(::getpid(), &into, 1, from.data(), from.size(), 0);
  return got == 2 || (got < 0 && errno != EFAULT);
}

void HostBuffers::refuse(const Call& call, const char* which) {
  throw Error(ErrorCode::invalid_argument,
              describe(call) + ": the " + which +
                  " is memory of a CUDA device, which processors do not reach: make a tutti::Gpu of the "
                  "communicator and call gpu.on(stream), or pass host or managed memory");
}

}  // namespace tutti
