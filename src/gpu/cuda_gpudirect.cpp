#include "gpu/cuda_gpudirect.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdint>

#include <tutti/error.hpp>

namespace tutti::gpu::cuda {

namespace {

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  static_cast<void>(::cudaGetLastError());
  throw Error(ErrorCode::system, fmt::format("{}: {}", what, ::cudaGetErrorString(result)));
}

int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  check(::cudaGetDevice(&device), "cudaGetDevice");
  check(::cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

// CUDA driver API, "Virtual Memory Management": addresses and sizes are whole pages of the host. The function
// is the driver's, so it is asked for by name: the library is linked with the runtime alone.
FileDescriptor export_dma_buf(const std::byte* memory, std::size_t bytes) {
  constexpr unsigned since = 11070;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  check(::cudaGetDriverEntryPointByVersion("cuMemGetHandleForAddressRange", &found, since, cudaEnableDefault,
                                           &status),
        "cudaGetDriverEntryPointByVersion");
  if (status != cudaDriverEntryPointSuccess || found == nullptr)
    throw Error(ErrorCode::unsupported, "the driver is older than CUDA 11.7 and has no dma-buf");
  int descriptor = -1;
  const auto get = reinterpret_cast<decltype(&::cuMemGetHandleForAddressRange)>(found);
  const CUresult result = get(&descriptor, static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(memory)),
                              bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  if (result != CUDA_SUCCESS)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("the driver gives no dma-buf (cuMemGetHandleForAddressRange: error {}; it takes NVIDIA's "
                    "open kernel modules)",
                    static_cast<int>(result)));
  return FileDescriptor(descriptor);
}

// CUDA runtime API, cudaDeviceFlushGPUDirectRDMAWrites: where the device's own ordering covers the scope, the
// flush "will be a no-op and can be safely omitted". Devices before Hopper need it (NCCL, src/graph/paths.cc,
// ncclTopoNeedFlush, which flushes by an RDMA READ of a loop-back queue pair instead).
NetworkWrites network_writes() {
  if (attribute(cudaDevAttrGPUDirectRDMAWritesOrdering) >= cudaGPUDirectRDMAWritesOrderingOwner)
    return NetworkWrites::in_order;
  return (attribute(cudaDevAttrGPUDirectRDMAFlushWritesOptions) & cudaFlushGPUDirectRDMAWritesOptionHost) != 0
             ? NetworkWrites::flushed
             : NetworkWrites::never;
}

void flush_network_writes() {
  check(::cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                             cudaFlushGPUDirectRDMAWritesToOwner),
        "cudaDeviceFlushGPUDirectRDMAWrites");
}

}  // namespace tutti::gpu::cuda
