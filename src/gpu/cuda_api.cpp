// Api by the CUDA runtime.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include <tutti/error.hpp>

#include "gpu/api.hpp"
#include "gpu/cuda_vmm.hpp"
#include "gpu/kernels.hpp"
#include "gpu/resources.hpp"

namespace tutti::gpu {

namespace {

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  static_cast<void>(
      ::cudaGetLastError());  // it is told here, and shall not be found by the caller's next check
  const bool absent = result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver ||
                      result == cudaErrorNoKernelImageForDevice;
  throw Error(absent ? ErrorCode::unsupported : ErrorCode::system,
              fmt::format("{}: {}{}", what, ::cudaGetErrorString(result),
                          absent ? " (tutti-doctor says what this machine has)" : ""));
}

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }

int device_of_thread() {
  int device = 0;
  check(::cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

/// The current device. The runtime makes its context current to a thread when that needs it; before calls of
/// the driver it must be.
int device_in_use() {
  const int device = device_of_thread();
  check(::cudaSetDevice(device), "cudaSetDevice");
  return device;
}

/// Of the current device.
int attribute(cudaDeviceAttr which) {
  int value = 0;
  check(::cudaDeviceGetAttribute(&value, which, device_of_thread()), "cudaDeviceGetAttribute");
  return value;
}

// Room for what a block shares, twice over; the rest of the memory is first-level cache.
constexpr int carveout_percent = 25;

template <class F>
void for_all_kernels(const F& f) {
  f(proof_kernel());
  for (const DataType type : {DataType::int8, DataType::uint8, DataType::int32, DataType::uint32,
                              DataType::int64, DataType::uint64, DataType::float16, DataType::bfloat16,
                              DataType::float32, DataType::float64, DataType::fp8_e4m3, DataType::fp8_e5m2}) {
    f(scale_kernel(type));
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) f(executor_kernel(type, op));
  }
}

/// While it lives, calls that a capture of another stream would forbid are allowed on this thread.
class OutsideCapture {
 public:
  OutsideCapture() { static_cast<void>(::cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~OutsideCapture() { static_cast<void>(::cudaThreadExchangeStreamCaptureMode(&mode_)); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

class CudaApi final : public Api {
 public:
  int device_count() override {
    int devices = 0;
    check(::cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    return devices;
  }
  int current_device() override { return device_of_thread(); }
  void set_device(int device) override { check(::cudaSetDevice(device), "cudaSetDevice"); }
  DeviceId device_id(int device) override {
    DeviceId id;
    const auto properties = properties_of(device);
    static_assert(sizeof properties.uuid == sizeof id);
    std::memcpy(id.data(), &properties.uuid, sizeof id);
    return id;
  }
  std::string device_name(int device) override { return properties_of(device).name; }
  bool reach_device(int other) override {
    const int mine = current_device();
    if (other == mine) return true;
    int can = 0;
    check(::cudaDeviceCanAccessPeer(&can, mine, other), "cudaDeviceCanAccessPeer");
    if (can == 0) return false;
    const cudaError_t result = ::cudaDeviceEnablePeerAccess(other, 0);
    if (result == cudaErrorPeerAccessAlreadyEnabled || result == cudaErrorTooManyPeers) {
      static_cast<void>(::cudaGetLastError());
      return result == cudaErrorPeerAccessAlreadyEnabled;
    }
    check(result, "cudaDeviceEnablePeerAccess");
    return true;
  }
  // CUDA Programming Guide, "Lazy Loading", on kernels that wait for each other. Their stacks are smaller
  // than what every thread has from the beginning (cudaLimitStackSize), so no launch makes room for one.
  void load_kernels() override {
    // Nor does any wait until the device is idle to divide its shared memory anew: all want it divided alike
    // ("Launching a kernel with a different preference [...] may insert a device-side synchronization point",
    // CUDA Runtime API, cudaFuncSetCacheConfig).
    for_all_kernels([](const void* kernel) {
      cudaFuncAttributes attributes;
      check(::cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
      check(::cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, carveout_percent),
            "cudaFuncSetAttribute");
    });
  }
  int resident_blocks() override {
    int fewest = std::numeric_limits<int>::max();
    for_all_kernels([&](const void* kernel) {
      int a_processor = 0;
      check(::cudaOccupancyMaxActiveBlocksPerMultiprocessor(&a_processor, kernel,
                                                            static_cast<int>(block_threads), 0),
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
      fewest = std::min(fewest, a_processor);
    });
    return fewest * attribute(cudaDevAttrMultiProcessorCount);
  }

  std::uint64_t address_space() override {
    static const std::uint64_t mine = [] {
      std::random_device random;  // process ids repeat between containers
      return static_cast<std::uint64_t>(random()) << 32 | random();
    }();
    return mine;
  }
  Pointer look_at(const void* pointer) override {
    cudaPointerAttributes attributes;
    check(::cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes");
    switch (attributes.type) {
      case cudaMemoryTypeDevice:
        return {Pointer::Kind::device, attributes.device};
      case cudaMemoryTypeManaged:
        return {Pointer::Kind::managed, -1};
      case cudaMemoryTypeHost:
        return {Pointer::Kind::pinned, -1};
      default:
        return {};
    }
  }
  std::byte* allocate(std::size_t bytes) override {
    const OutsideCapture outside;
    void* memory = nullptr;
    check(::cudaMalloc(&memory, bytes), "cudaMalloc");
    return zeroed(static_cast<std::byte*>(memory), bytes);
  }
  bool free(std::byte* memory) noexcept override {
    const OutsideCapture outside;
    if (vmm_.unmap(memory)) return true;
    // Other errors are of work before: the caller finds them, as without this.
    if (::cudaFree(memory) != cudaErrorInvalidValue) return true;
    static_cast<void>(::cudaGetLastError());
    return false;
  }
  std::byte* allocate_pinned(std::size_t bytes) override {
    const OutsideCapture outside;
    void* memory = nullptr;
    check(::cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
    std::memset(memory, 0, bytes);
    return static_cast<std::byte*>(memory);
  }
  void free_pinned(std::byte* memory) noexcept override {
    const OutsideCapture outside;
    static_cast<void>(::cudaFreeHost(memory));
  }
  void pin(std::byte* memory, std::size_t bytes) override {
    const OutsideCapture outside;
    if (attribute(cudaDevAttrCanUseHostPointerForRegisteredMem) == 0)
      throw Error(ErrorCode::unsupported, "the device reaches registered host memory at another address");
    check(::cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
          "cudaHostRegister");
  }
  void unpin(std::byte* memory) noexcept override {
    const OutsideCapture outside;
    static_cast<void>(::cudaHostUnregister(memory));
  }
  void upload(std::byte* to, const std::byte* from, std::size_t bytes) override {
    const OutsideCapture outside;
    const TemporaryStream stream(*this);
    check(::cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, native(stream.get())),
          "cudaMemcpyAsync");
    synchronize(stream.get());
  }
  std::uint64_t allocation_id(const void* pointer) override {
    static_cast<void>(device_in_use());
    return vmm_.allocation_id(pointer);
  }
  std::string why_not_shared(Sharing how) override { return vmm_.why_not_shared(device_in_use(), how); }
  std::byte* allocate_shared(std::size_t bytes, bool fabric) override {
    const OutsideCapture outside;
    return zeroed(vmm_.allocate(device_in_use(), bytes, fabric), bytes);
  }
  Export export_memory(const std::byte* memory) override {
    const OutsideCapture outside;
    static_cast<void>(device_in_use());
    Export exported = vmm_.export_memory(memory);
    if (exported.descriptor || exported.fabric) return exported;
    cudaIpcMemHandle_t handle;
    check(::cudaIpcGetMemHandle(&handle, exported.begin), "cudaIpcGetMemHandle");
    static_assert(sizeof handle == sizeof(MemoryHandle));
    std::memcpy(exported.ipc.emplace().data(), &handle, sizeof handle);
    return exported;
  }
  std::byte* open_descriptor(const FileDescriptor& descriptor, std::size_t bytes) override {
    const OutsideCapture outside;
    return vmm_.open_descriptor(device_in_use(), descriptor, bytes);
  }
  std::byte* open_handle(Sharing how, const MemoryHandle& bytes_of_handle, std::size_t bytes) override {
    const OutsideCapture outside;
    if (how == Sharing::fabric) return vmm_.open_fabric(device_in_use(), bytes_of_handle, bytes);
    cudaIpcMemHandle_t handle;
    std::memcpy(&handle, bytes_of_handle.data(), sizeof handle);
    void* memory = nullptr;
    check(::cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
    return static_cast<std::byte*>(memory);
  }
  void close(std::byte* memory) noexcept override {
    const OutsideCapture outside;
    if (!vmm_.unmap(memory)) static_cast<void>(::cudaIpcCloseMemHandle(memory));
  }

  FileDescriptor export_dma_buf(const std::byte* memory, std::size_t bytes) override {
    static_cast<void>(device_in_use());
    return vmm_.export_dma_buf(memory, bytes);
  }
  // CUDA runtime API, cudaDeviceFlushGPUDirectRDMAWrites: where the device's own ordering covers the scope,
  // the flush "will be a no-op and can be safely omitted". Devices before Hopper need it (NCCL,
  // src/graph/paths.cc, ncclTopoNeedFlush, which flushes by an RDMA READ of a loop-back queue pair instead).
  NetworkWrites network_writes() override {
    if (attribute(cudaDevAttrGPUDirectRDMAWritesOrdering) >= cudaGPUDirectRDMAWritesOrderingOwner)
      return NetworkWrites::in_order;
    const int flushes = attribute(cudaDevAttrGPUDirectRDMAFlushWritesOptions);
    return (flushes & cudaFlushGPUDirectRDMAWritesOptionHost) != 0 ? NetworkWrites::flushed
                                                                   : NetworkWrites::never;
  }
  void flush_network_writes() override {
    check(::cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                               cudaFlushGPUDirectRDMAWritesToOwner),
          "cudaDeviceFlushGPUDirectRDMAWrites");
  }

  Stream create_stream() override {
    const OutsideCapture outside;
    cudaStream_t stream = nullptr;
    check(::cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
  }
  void destroy_stream(Stream stream) noexcept override {
    static_cast<void>(::cudaStreamDestroy(native(stream)));
  }
  int stream_device(Stream stream) override {
    int device = 0;
    check(::cudaStreamGetDevice(native(stream), &device), "cudaStreamGetDevice");
    return device;
  }
  std::uint64_t stream_id(Stream stream) override {
    unsigned long long id = 0;
    check(::cudaStreamGetId(native(stream), &id), "cudaStreamGetId");
    return id;
  }
  bool is_common(Stream stream) override { return stream == nullptr || stream == cudaStreamLegacy; }
  Capture capture_of(Stream stream) override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    check(::cudaStreamGetCaptureInfo(native(stream), &status, &id), "cudaStreamGetCaptureInfo");
    if (status == cudaStreamCaptureStatusNone) return {};
    return id;
  }
  void synchronize(Stream stream) override {
    const OutsideCapture outside;
    check(::cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
  }
  Event create_event() override {
    const OutsideCapture outside;
    cudaEvent_t event = nullptr;
    check(::cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return event;
  }
  void destroy_event(Event event) noexcept override {
    static_cast<void>(::cudaEventDestroy(static_cast<cudaEvent_t>(event)));
  }
  void record(Event event, Stream stream) override {
    check(::cudaEventRecord(static_cast<cudaEvent_t>(event), native(stream)), "cudaEventRecord");
  }
  void wait_event(Stream stream, Event event) override {
    check(::cudaStreamWaitEvent(native(stream), static_cast<cudaEvent_t>(event), 0), "cudaStreamWaitEvent");
  }

  bool is_reached(Event event) override {
    const OutsideCapture outside;
    const cudaError_t result = ::cudaEventQuery(static_cast<cudaEvent_t>(event));
    if (result == cudaErrorNotReady) {
      static_cast<void>(::cudaGetLastError());  // as after an error
      return false;
    }
    check(result, "cudaEventQuery");
    return true;
  }
  void synchronize_event(Event event) override {
    const OutsideCapture outside;
    check(::cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "cudaEventSynchronize");
  }

  void launch(const device::Launch& launch, int lanes, int slices, Stream stream) override {
    void* arguments[] = {const_cast<device::Launch*>(&launch)};
    check(::cudaLaunchKernel(executor_kernel(launch.type, launch.op),
                             dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(slices)),
                             dim3(block_threads), arguments, 0, native(stream)),
          "cudaLaunchKernel of a collective");
  }
  void launch_proof(const device::Membership* group, device::Proof phase, std::uint32_t* wrong,
                    Stream stream) override {
    void* arguments[] = {&group, &phase, &wrong};
    check(::cudaLaunchKernel(proof_kernel(), dim3(1), dim3(block_threads), arguments, 0, native(stream)),
          "cudaLaunchKernel of the proof of paths");
  }
  void launch_scale(const device::Scale& scale, Stream stream) override {
    void* arguments[] = {const_cast<device::Scale*>(&scale)};
    check(::cudaLaunchKernel(scale_kernel(scale.type), dim3(scale_blocks), dim3(block_threads), arguments, 0,
                             native(stream)),
          "cudaLaunchKernel of a scaled copy");
  }

 private:
  std::byte* zeroed(std::byte* memory, std::size_t bytes) {
    try {
      const TemporaryStream stream(*this);
      check(::cudaMemsetAsync(memory, 0, bytes, native(stream.get())), "cudaMemsetAsync");
      synchronize(stream.get());
      return memory;
    } catch (...) {
      free(memory);
      throw;
    }
  }
  static cudaDeviceProp properties_of(int device) {
    cudaDeviceProp properties;
    check(::cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    return properties;
  }

  CudaVmm vmm_;
};

}  // namespace

std::shared_ptr<Api> cuda_api() { return std::make_shared<CudaApi>(); }

}  // namespace tutti::gpu
