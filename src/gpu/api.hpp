/// \file
/// The one door to the CUDA runtime: every call of it that the library makes goes through this table, so that
/// tests can put an emulated device in its place, and so that a build without CUDA has one place to say so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/file_descriptor.hpp"
#include "gpu/device/executor.hpp"
#include "gpu/device/proof.hpp"
#include "gpu/device/scale.hpp"

namespace tutti::gpu {

/// A cudaStream_t; nullptr is the default stream.
using Stream = void*;
/// A cudaEvent_t.
using Event = void*;
/// The capture that a stream is in, if any; each has another number.
using Capture = std::optional<std::uint64_t>;

/// What a pointer points to.
struct Pointer {
  enum class Kind : std::uint8_t {
    host,    ///< plain memory, or no memory
    pinned,  ///< page-locked host memory, which devices reach
    device,
    managed,
  };
  Kind kind = Kind::host;
  int device = -1;  ///< of device memory
};

/// How device memory is opened by other processes, the best first. The first two are of memory that was
/// allocated for it (CUDA's virtual memory management), the last of all other.
enum class Sharing : std::uint8_t {
  descriptor,  ///< a file descriptor; within a host
  fabric,      ///< a handle that means something in all hosts of one NVLink domain
  ipc,         ///< CUDA IPC; within a host
};
/// Of `fabric` and `ipc`. Sent as bytes.
using MemoryHandle = std::array<std::byte, 64>;

/// What others need to open an allocation.
struct Export {
  std::byte* begin = nullptr;  ///< of the whole allocation
  std::size_t bytes = 0;
  FileDescriptor descriptor;  ///< where it has one
  std::optional<MemoryHandle> fabric, ipc;
};
/// The same for every process, whatever number it knows the device by.
using DeviceId = std::array<std::byte, 16>;

/// How a device comes to see what adapters of a network have written into its memory.
enum class NetworkWrites : std::uint8_t {
  in_order,  ///< by itself, once the host knows that they are there
  flushed,   ///< after `flush_network_writes`
  never,     ///< neither
};

/// Every function throws Error(system) with the runtime's words, or Error(unsupported) where there is no
/// driver or no device. Functions on memory and launches act on the calling thread's current device. Thread
/// safe.
class Api {
 public:
  virtual ~Api() = default;

  virtual int device_count() = 0;
  virtual int current_device() = 0;
  virtual void set_device(int device) = 0;
  virtual DeviceId device_id(int device) = 0;
  /// For messages: "NVIDIA H200".
  virtual std::string device_name(int device) = 0;
  /// Lets the current device reach the memory of another one. False where the hardware cannot, or not of one
  /// more.
  virtual bool reach_device(int other) = 0;
  /// Loads the kernels on the current device. Otherwise the first launch of each does, which may wait for all
  /// that runs there: for ever, if that waits for the launch.
  virtual void load_kernels() = 0;
  /// Blocks of the executor that the current device runs side by side.
  virtual int resident_blocks() = 0;

  /// Equal for callers whose pointers mean the same.
  virtual std::uint64_t address_space() = 0;
  virtual Pointer look_at(const void* pointer) = 0;
  /// Of an allocation that a device pointer is in: another one at the same address has another. 0: unknown.
  virtual std::uint64_t allocation_id(const void* pointer) = 0;
  /// Zeroed device memory, aligned to 256 bytes.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// Why memory of the current device cannot be shared so; empty: it can, as far as the driver says.
  virtual std::string why_not_shared(Sharing how) = 0;
  /// Likewise, for others to open by descriptor and, if `fabric`, by fabric handle, too; rounded up to pages.
  /// Other devices of this process reach it.
  virtual std::byte* allocate_shared(std::size_t bytes, bool fabric) = 0;
  /// Of both. False: that was none, as where no allocation begins.
  virtual bool free(std::byte* memory) noexcept = 0;
  /// Zeroed page-locked host memory, at the same address on devices.
  virtual std::byte* allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(std::byte* memory) noexcept = 0;
  /// Page-locks memory of the caller's, whole pages; devices reach it at its address.
  virtual void pin(std::byte* memory, std::size_t bytes) = 0;
  virtual void unpin(std::byte* memory) noexcept = 0;
  /// Fills device memory and returns when it is done. Waits for no work of the caller's, captures nothing.
  virtual void upload(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Of device memory, whoever allocated it. Throws where it cannot be shared.
  virtual Export export_memory(const std::byte* memory) = 0;
  /// Opens the allocation of another process, `bytes` long; its begin as the current device reaches it.
  virtual std::byte* open_descriptor(const FileDescriptor& descriptor, std::size_t bytes) = 0;
  /// `how`: fabric or ipc.
  virtual std::byte* open_handle(Sharing how, const MemoryHandle& handle, std::size_t bytes) = 0;
  /// Of memory that was opened, in whatever way.
  virtual void close(std::byte* memory) noexcept = 0;

  /// GPUDirect RDMA. A dma-buf of device memory, whole pages. Throws Error(unsupported) where the driver has
  /// none.
  virtual FileDescriptor export_dma_buf(const std::byte* memory, std::size_t bytes) = 0;
  /// Of the current device.
  virtual NetworkWrites network_writes() = 0;
  virtual void flush_network_writes() = 0;

  /// One that waits for no other.
  virtual Stream create_stream() = 0;
  virtual void destroy_stream(Stream stream) noexcept = 0;
  /// Not of a stream that is capturing, which CUDA forbids.
  virtual int stream_device(Stream stream) = 0;
  /// Another one for every stream that ever was.
  virtual std::uint64_t stream_id(Stream stream) = 0;
  /// All threads of the process have it in common: CUDA's default stream.
  virtual bool is_common(Stream stream) = 0;
  virtual Capture capture_of(Stream stream) = 0;
  bool is_capturing(Stream stream) { return capture_of(stream).has_value(); }
  virtual void synchronize(Stream stream) = 0;
  virtual Event create_event() = 0;
  virtual void destroy_event(Event event) noexcept = 0;
  virtual void record(Event event, Stream stream) = 0;
  virtual void wait_event(Stream stream, Event event) = 0;
  /// Whether it has been reached. Waits for nothing.
  virtual bool is_reached(Event event) = 0;
  /// Returns when the event has been reached.
  virtual void synchronize_event(Event event) = 0;

  /// One block for each lane and slice of the program. `slices` and `lanes` are those in it.
  virtual void launch(const device::Launch& launch, int lanes, int slices, Stream stream) = 0;
  /// One phase of the proof (device/proof.hpp).
  virtual void launch_proof(const device::Membership* group, device::Proof phase, std::uint32_t* wrong,
                            Stream stream) = 0;
  /// The elements times `factor`, rounded once.
  virtual void launch_scale(const device::Scale& scale, Stream stream) = 0;
};

/// The API that the library uses: the CUDA runtime unless it was replaced. Throws Error(unsupported) in a
/// build without CUDA.
std::shared_ptr<Api> api();
/// For tests; nullptr goes back to the runtime. What was made with the API before keeps it.
void replace_api(std::shared_ptr<Api> api);

/// The CUDA runtime. In builds with CUDA only.
std::shared_ptr<Api> cuda_api();

}  // namespace tutti::gpu
