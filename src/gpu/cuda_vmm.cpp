#include "gpu/cuda_vmm.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include <tutti/error.hpp>

namespace tutti::gpu {

namespace {

// What goes wrong is not left for the caller's next check.
bool succeeded(cudaError_t result) {
  if (result == cudaSuccess) return true;
  static_cast<void>(::cudaGetLastError());
  return false;
}

template <class Function>
void find(Function*& function, const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  constexpr unsigned since = 12000;
  if (!succeeded(::cudaGetDriverEntryPointByVersion(name, &entry, since, cudaEnableDefault, &found)) ||
      found != cudaDriverEntryPointSuccess)
    throw Error(ErrorCode::unsupported, fmt::format("the CUDA driver has no {}", name));
  function = reinterpret_cast<Function*>(entry);
}

/// Of CUDA 12 and later.
struct Driver {
  decltype(&::cuDeviceGetAttribute) attribute = nullptr;
  decltype(&::cuGetErrorString) error_string = nullptr;
  decltype(&::cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemAddressReserve) reserve = nullptr;
  decltype(&::cuMemAddressFree) unreserve = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
  decltype(&::cuMemRetainAllocationHandle) retain = nullptr;
  decltype(&::cuMemGetAllocationPropertiesFromHandle) properties = nullptr;
  decltype(&::cuMemExportToShareableHandle) export_handle = nullptr;
  decltype(&::cuMemImportFromShareableHandle) import_handle = nullptr;
  decltype(&::cuMemGetAddressRange) address_range = nullptr;
  decltype(&::cuPointerGetAttribute) pointer_attribute = nullptr;
  decltype(&::cuMemGetHandleForAddressRange) handle_of_range = nullptr;

  Driver() {
    find(attribute, "cuDeviceGetAttribute");
    find(error_string, "cuGetErrorString");
    find(granularity, "cuMemGetAllocationGranularity");
    find(create, "cuMemCreate");
    find(release, "cuMemRelease");
    find(reserve, "cuMemAddressReserve");
    find(unreserve, "cuMemAddressFree");
    find(map, "cuMemMap");
    find(unmap, "cuMemUnmap");
    find(set_access, "cuMemSetAccess");
    find(retain, "cuMemRetainAllocationHandle");
    find(properties, "cuMemGetAllocationPropertiesFromHandle");
    find(export_handle, "cuMemExportToShareableHandle");
    find(import_handle, "cuMemImportFromShareableHandle");
    find(address_range, "cuMemGetAddressRange");
    find(pointer_attribute, "cuPointerGetAttribute");
    find(handle_of_range, "cuMemGetHandleForAddressRange");
  }
};
const Driver& driver() {
  static const Driver functions;
  return functions;
}

void require(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* words = nullptr;
  if (driver().error_string(result, &words) != CUDA_SUCCESS || words == nullptr) words = "unknown error";
  throw Error(ErrorCode::system, fmt::format("{}: {}", what, words));
}

bool has(int device, CUdevice_attribute attribute) {
  int value = 0;
  return driver().attribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

/// Memory without an address. A mapping keeps it when this is gone.
class Handle {
 public:
  Handle() = default;
  explicit Handle(CUmemGenericAllocationHandle handle) : handle_(handle) {}
  ~Handle() {
    if (handle_ != 0) static_cast<void>(driver().release(handle_));
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  [[nodiscard]] CUmemGenericAllocationHandle get() const { return handle_; }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
};

CUdeviceptr address_of(const void* memory) { return std::bit_cast<CUdeviceptr>(memory); }

CUmemAllocationProp properties_for(int device, bool fabric) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if (fabric)
    properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC);
  if (has(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
    properties.allocFlags.gpuDirectRDMACapable = 1;
  return properties;
}

void set_access(CUdeviceptr address, std::size_t bytes, int device) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  require(driver().set_access(address, bytes, &access, 1), "cuMemSetAccess");
}

// Peer access that was enabled for other memory does not hold for this.
void set_access_of_peers(CUdeviceptr address, std::size_t bytes, int owner) {
  int devices = 0;
  if (!succeeded(::cudaGetDeviceCount(&devices))) return;
  for (int device = 0; device < devices; ++device) {
    int can = 0;
    if (device != owner && succeeded(::cudaDeviceCanAccessPeer(&can, device, owner)) && can != 0)
      set_access(address, bytes, device);
  }
}

}  // namespace

std::string CudaVmm::why_not_shared(int device, Sharing how) {
  try {
    if (how == Sharing::ipc) return {};
    if (!has(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
      return "the device has no virtual memory management";
    if (!has(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
      return "the driver offers no file descriptors of device memory";
    if (how == Sharing::fabric && !has(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED))
      return "the driver offers no fabric handles";
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::byte* CudaVmm::map(int device, unsigned long long handle, std::size_t bytes, bool to_all_devices) {
  CUdeviceptr address = 0;
  require(driver().reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
  bool mapped = false;
  try {
    require(driver().map(address, bytes, 0, handle, 0), "cuMemMap");
    mapped = true;
    set_access(address, bytes, device);
    if (to_all_devices) set_access_of_peers(address, bytes, device);
    auto* const memory = std::bit_cast<std::byte*>(address);
    const std::scoped_lock lock(mutex_);
    mapped_[memory] = bytes;
    return memory;
  } catch (...) {
    if (mapped) static_cast<void>(driver().unmap(address, bytes));
    static_cast<void>(driver().unreserve(address, bytes));
    throw;
  }
}

std::byte* CudaVmm::allocate(int device, std::size_t bytes, bool fabric) {
  const CUmemAllocationProp properties = properties_for(device, fabric);
  std::size_t granularity = 0;
  require(driver().granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
          "cuMemGetAllocationGranularity");
  const std::size_t whole = (bytes + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle created = 0;
  require(driver().create(&created, whole, &properties, 0), "cuMemCreate");
  const Handle handle(created);
  return map(device, handle.get(), whole, true);
}

std::byte* CudaVmm::open_descriptor(int device, const FileDescriptor& descriptor, std::size_t bytes) {
  CUmemGenericAllocationHandle imported = 0;
  require(
      driver().import_handle(&imported, std::bit_cast<void*>(static_cast<std::intptr_t>(descriptor.get())),
                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      "cuMemImportFromShareableHandle (file descriptor)");
  const Handle handle(imported);
  return map(device, handle.get(), bytes, false);
}

std::byte* CudaVmm::open_fabric(int device, const MemoryHandle& bytes_of_handle, std::size_t bytes) {
  CUmemFabricHandle fabric;
  static_assert(sizeof fabric == sizeof bytes_of_handle);
  std::memcpy(&fabric, bytes_of_handle.data(), sizeof fabric);
  CUmemGenericAllocationHandle imported = 0;
  require(driver().import_handle(&imported, &fabric, CU_MEM_HANDLE_TYPE_FABRIC),
          "cuMemImportFromShareableHandle (fabric handle)");
  const Handle handle(imported);
  return map(device, handle.get(), bytes, false);
}

bool CudaVmm::unmap(std::byte* memory) noexcept {
  std::size_t bytes = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = mapped_.find(memory);
    if (found == mapped_.end()) return false;
    bytes = found->second;
    mapped_.erase(found);
  }
  static_cast<void>(driver().unmap(address_of(memory), bytes));
  static_cast<void>(driver().unreserve(address_of(memory), bytes));
  return true;
}

Export CudaVmm::export_memory(const std::byte* memory) {
  Export exported;
  CUdeviceptr begin = 0;
  require(driver().address_range(&begin, &exported.bytes, address_of(memory)), "cuMemGetAddressRange");
  exported.begin = std::bit_cast<std::byte*>(begin);
  CUmemGenericAllocationHandle retained = 0;
  if (driver().retain(&retained, exported.begin) != CUDA_SUCCESS) return exported;  // of cudaMalloc
  const Handle handle(retained);
  CUmemAllocationProp properties{};
  require(driver().properties(&properties, handle.get()), "cuMemGetAllocationPropertiesFromHandle");
  if ((properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
    int descriptor = -1;
    require(driver().export_handle(&descriptor, handle.get(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            "cuMemExportToShareableHandle (file descriptor)");
    exported.descriptor = FileDescriptor(descriptor);
  }
  if ((properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) != 0) {
    CUmemFabricHandle fabric;
    if (driver().export_handle(&fabric, handle.get(), CU_MEM_HANDLE_TYPE_FABRIC, 0) == CUDA_SUCCESS)
      std::memcpy(exported.fabric.emplace().data(), &fabric, sizeof fabric);
  }
  if (!exported.descriptor && !exported.fabric)
    throw Error(ErrorCode::unsupported,
                "this memory was allocated for no other process (cuMemCreate without handle types)");
  return exported;
}

FileDescriptor CudaVmm::export_dma_buf(const std::byte* memory, std::size_t bytes) {
  int descriptor = -1;
  const CUresult result = driver().handle_of_range(&descriptor, address_of(memory), bytes,
                                                   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  if (result != CUDA_SUCCESS)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("the driver gives no dma-buf (cuMemGetHandleForAddressRange: error {}; it takes NVIDIA's "
                    "open kernel modules)",
                    static_cast<int>(result)));
  return FileDescriptor(descriptor);
}

std::uint64_t CudaVmm::allocation_id(const void* memory) {
  unsigned long long id = 0;
  if (driver().pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address_of(memory)) != CUDA_SUCCESS)
    return 0;
  return id;
}

}  // namespace tutti::gpu
