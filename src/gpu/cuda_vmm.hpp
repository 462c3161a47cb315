/// \file
/// Device memory by the driver's virtual memory management, which other processes map: Api's functions of the
/// same names. The driver's functions are asked of the runtime, so that nothing links the driver.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "gpu/api.hpp"

namespace tutti::gpu {

/// What this process has mapped. Thread safe.
class CudaVmm {
 public:
  std::string why_not_shared(int device, Sharing how);
  /// Not zeroed.
  std::byte* allocate(int device, std::size_t bytes, bool fabric);
  std::byte* open_descriptor(int device, const FileDescriptor& descriptor, std::size_t bytes);
  std::byte* open_fabric(int device, const MemoryHandle& handle, std::size_t bytes);
  /// False where it was mapped by somebody else.
  bool unmap(std::byte* memory) noexcept;
  /// The allocation that a device pointer is in: where it is, and its handles where it has such.
  Export export_memory(const std::byte* memory);
  FileDescriptor export_dma_buf(const std::byte* memory, std::size_t bytes);
  std::uint64_t allocation_id(const void* memory);

 private:
  std::byte* map(int device, unsigned long long handle, std::size_t bytes, bool to_all_devices);
  std::mutex mutex_;
  std::map<std::byte*, std::size_t> mapped_;
};

}  // namespace tutti::gpu
