/// \file
/// GPU buffers: the operations of a communicator on device memory, enqueued on CUDA streams. The header needs
/// no CUDA: a stream is a pointer, `cudaStream_t` converts to it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tutti/communicator.hpp>
#include <tutti/error.hpp>
#include <tutti/operations.hpp>

namespace tutti {

namespace detail {
class GpuState;
}

/// What a person may choose; equal on all ranks, but for `timeout` and `gpu_direct`.
struct GpuOptions {
  /// Most blocks that a launch takes, each of which keeps one multiprocessor busy; 1 to 128. Blocks of all
  /// ranks that are threads on one GPU must fit on it side by side, else Error(invalid_argument). But a
  /// launch takes at least one block for every lane of its schedule (`Gpu::explain` says how many, 8 at
  /// most); a group of sends and receives takes one for every rank it sends to and every one it receives
  /// from. If these do not fit side by side, the launch may wait for itself until its deadline.
  int blocks = 16;
  /// Bytes of device memory for messages, about. At least 4 KiB a message are taken.
  std::size_t memory = std::size_t{20} << 20;
  /// Longest that a kernel waits for other ranks; 0: as long as the communicator's calls.
  std::chrono::milliseconds timeout{0};
  /// False: ranks of one host talk through page-locked host memory even where their devices reach each other.
  bool peer_access = true;
  /// False: ranks of different hosts talk over the network even where one NVLink domain joins their devices.
  bool fabric = true;
  /// False: messages to other hosts lie in page-locked host memory on their way even where the adapters of
  /// both ends reach device memory, which takes up to twice `memory` more.
  bool gpu_direct = true;
  /// Every so many consecutive ranks are taken for a host, and others are reached over the network, so that
  /// tests of that need one machine only. 0: hosts are what they are.
  int host_size = 0;
};

/// A block for every rank, in a buffer of an operation whose counts only the device knows. In elements.
struct DeviceBlocks {
  const std::uint64_t* counts = nullptr;  ///< `size()` in device memory
  /// Likewise; nullptr: blocks follow each other. Those of empty blocks are not looked at.
  const std::uint64_t* displacements = nullptr;
  std::size_t room = 0;  ///< what the buffer holds
};

/// Arguments of `OnStream::all_reduce_rms_norm`. Buffers are rows of `hidden` elements, one a token; `weight`
/// is one row. `out` and `residual_out` may each be `in` or `residual`, but not the same; no other overlap.
struct AllReduceRmsNorm {
  const void* in = nullptr;
  const void* residual = nullptr;  ///< the same on all ranks
  const void* weight = nullptr;    ///< the same on all ranks
  void* out = nullptr;
  void* residual_out = nullptr;
  std::size_t tokens = 0, hidden = 0;
  DataType type = DataType::bfloat16;  ///< of all buffers: float16, bfloat16 or float32
  float epsilon = 1e-6F;               ///< the same on all ranks
};

/// Operations on one stream: `gpu.on(stream).all_reduce(...)`. Buffers are device or managed memory of the
/// Gpu's device, or page-locked host memory, aligned as their elements; counts are host memory and copied. A
/// call returns when its kernel is in the stream. It never waits for other ranks, and for the device only
/// where the first call of a kind allocates memory there (see GpuGroup::prepare).
///
/// Where ranks are threads on several devices that reach each other, kernels reach the buffers of all ranks.
/// Memory of cudaMallocAsync or cuMemMap is then passed only if it is accessible to those devices
/// (cudaMemPoolSetAccess, cuMemSetAccess); that of cudaMalloc and of `Gpu::allocate` is.
///
/// Errors, before anything is enqueued: Error(invalid_argument) for host pointers, memory or streams of
/// another device, a GpuBuffer that was freed, and all that Operations says; Error(system) where this rank
/// has not the device memory for it, and may try again. What fails on the device is thrown by the next call,
/// or by `Gpu::check`.
class OnStream : public Operations<OnStream, void> {
 public:
  /// Those of the communicator.
  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] int size() const noexcept;

  using Operations<OnStream, void>::all_to_all_v;
  /// all_to_all_v with counts and displacements that earlier work of the stream computes: the kernel reads
  /// them. What reaches beyond the buffers is reported as Error(invalid_argument) by the next call or by
  /// `check`, and sizes that the two ends of a block do not share as Error(mismatch). The rooms of the
  /// buffers do not overlap.
  void all_to_all_v(const void* in, const DeviceBlocks& in_blocks, void* out, const DeviceBlocks& out_blocks,
                    DataType type);

  /// What follows a layer that is divided between ranks (tensor parallel), in one kernel:
  /// `residual_out` = the sum of all ranks' `in` in rank order, then plus `residual`, in float32, rounded
  /// once; `out` = residual_out / sqrt(mean of the row's residual_out^2 + epsilon) * weight, in float32,
  /// rounded once. Bitwise equal on all ranks. Errors as for the other operations; collective like them.
  /// The fusion is that of TensorRT-LLM's and vLLM's all-reduce kernels.
  void all_reduce_rms_norm(const AllReduceRmsNorm& arguments);

 private:
  friend class Gpu;
  friend class Operations<OnStream, void>;
  OnStream(detail::GpuState& state, void* stream) : state_(&state), stream_(stream) {}
  void submit(const Call& call);
  detail::GpuState* state_;
  void* stream_;
};

/// Collects calls and enqueues them together. Its sends and receives are one kernel, in which they progress
/// concurrently; collectives follow in the order of their calls. If there are more than 128 sends and
/// receives, several kernels each take some between all pairs of ranks, so the peers must have theirs in
/// groups, too.
class GpuGroup : public Operations<GpuGroup, void> {
 public:
  /// Those of the communicator.
  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  /// All of `run` that could wait for the device or throw, so that a thread with several ranks can do it for
  /// all of them first: plans, and device memory. Throws what `run` does.
  void prepare();
  /// Enqueues all collected calls, and forgets them, also where it throws.
  void run();

 private:
  friend class Gpu;
  friend class Operations<GpuGroup, void>;
  GpuGroup(detail::GpuState& state, void* stream) : state_(&state), stream_(stream) {}
  void submit(const Call& call);
  detail::GpuState* state_;
  void* stream_;
  detail::CallList calls_;
};

/// Memory of a Gpu's device, from `Gpu::allocate`. It ends with its Gpu or, in later calls, after its last
/// copy is gone. Elements are on the device: only calls and kernels reach them.
template <Element T>
class GpuBuffer {
 public:
  /// Empty, of size() 0 at nullptr, as one that was moved from.
  GpuBuffer() = default;
  GpuBuffer(const GpuBuffer&) = default;
  GpuBuffer(GpuBuffer&& other) noexcept
      : token_(std::move(other.token_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  GpuBuffer& operator=(GpuBuffer other) noexcept {
    token_.swap(other.token_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~GpuBuffer() = default;
  /// All of it, `size()` elements in device memory; any thread may ask.
  [[nodiscard]] std::span<T> span() const noexcept { return {data_, size_}; }
  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  friend class Gpu;
  GpuBuffer(std::shared_ptr<const void> token, T* data, std::size_t size)
      : token_(std::move(token)), data_(data), size_(size) {}
  std::shared_ptr<const void> token_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Keeps device memory registered while it, or a copy of it, lives.
class GpuRegistration {
 public:
  /// Of nothing.
  GpuRegistration() = default;

 private:
  friend class Gpu;
  explicit GpuRegistration(std::shared_ptr<const void> token) : token_(std::move(token)) {}
  std::shared_ptr<const void> token_;
};

/// The GPU of one rank of a communicator, and its ways to those of the others. One thread at a time uses it.
/// Its making, `allocate`, `register_memory` and its end are calls of the communicator, too: on that one's
/// thread, in their place among its calls on all ranks, and behind collectives that were started before.
/// Calls on streams have no such place: one in place of a call of the communicator is found by the deadline
/// only.
///
/// All ranks call the same operations in the same order, as with a communicator; calls on several streams are
/// put in the order of the calls. Kernels of all ranks must be able to run side by side: ranks that are
/// threads share a GPU well, processes on one GPU take turns unless they run under MPS.
///
/// Calls may be captured in CUDA graphs, and the graphs replayed, if all ranks replay alike. Calls of one
/// capture are put in the order of the calls, unless calls of another capture come between them. A replay is
/// not put in order with calls on other streams, nor with other replays there: the program does that by
/// events, on all ranks alike, or ranks take each other's messages for those of other calls. No graph
/// outlives its Gpu, nor runs while it ends.
class Gpu {
 public:
  /// Of no communicator, as one that was moved from: may only be destroyed, assigned to, or asked whether it
  /// is of one.
  Gpu() noexcept;
  /// On the calling thread's current device. Collective over the communicator, which must outlive it, in
  /// assignments, too: the default one of a class that holds both would end the communicator first, so that
  /// the Gpu has to be ended before it (`gpu = Gpu()`). Throws Error(unsupported) in a build without CUDA,
  /// without a driver or device, and for more than 64 ranks; Error(invalid_argument) for `GpuOptions::blocks`
  /// out of range, or more than the device runs side by side; Error(mismatch) when options differ;
  /// Error(system) when what is written by one rank does not arrive at another, by any way. What is wrong on
  /// one rank is thrown on all and names it, and the communicator stays usable.
  explicit Gpu(Communicator& communicator, const GpuOptions& options = {});
  Gpu(Gpu&&) noexcept;
  Gpu& operator=(Gpu&&) noexcept;
  /// Collective: waits for what was enqueued, and for the other ranks, since they write into memory of this
  /// one. After a failure, or while an exception passes through, it waits for no other rank, and that memory
  /// is not freed. In a child made by fork it does nothing: all of it is the parent's.
  ~Gpu();
  /// Whether it is of one.
  explicit operator bool() const noexcept { return state_ != nullptr; }

  /// `stream`: a cudaStream_t of this device; nullptr is the default stream, which no rank may use when
  /// others are threads on the same device: it would run their kernels one after the other. Valid while the
  /// Gpu lives, also when that is moved.
  [[nodiscard]] OnStream on(void* stream) noexcept { return {*state_, stream}; }
  [[nodiscard]] GpuGroup group(void* stream) noexcept { return {*state_, stream}; }

  /// Zeroed memory of the device, aligned to 256 bytes. Where all ranks reach each other's devices, all reach
  /// it, also as processes: large calls go straight from such buffers into such buffers. Between processes, a
  /// call passes buffers of `allocate` or `register_memory` on all ranks or on none, and is in place on all
  /// or on none (else Error(mismatch)).
  ///
  /// Collective; counts may differ. It waits for what was enqueued, and no graph of this Gpu may run
  /// meanwhile. During a capture it is done at once, and no graph repeats it. What was freed on all ranks is
  /// given back by the next `allocate` or `register_memory`, or with the Gpu. Throws on all ranks
  /// Error(unsupported) where one cannot allocate or open it, and for more than 32 of both.
  template <Element T>
  [[nodiscard]] GpuBuffer<T> allocate(std::size_t count) {
    constexpr auto most = static_cast<std::size_t>(-1);  // refused once all ranks have made the call
    auto [token, data] = allocate_bytes(count > most / sizeof(T) ? most : count * sizeof(T));
    return GpuBuffer<T>(std::move(token), static_cast<T*>(data), count);
  }
  /// The same for device memory that exists, in one allocation of cudaMalloc, or of cuMemCreate with handles
  /// for other processes. Other processes have it open until the first `allocate` or `register_memory` after
  /// its registration has ended on all ranks, or until the Gpu ends: free it only then. Throws
  /// Error(invalid_argument) on all ranks where one passes what is not memory of its Gpu's device.
  [[nodiscard]] GpuRegistration register_memory(void* data, std::size_t bytes);

  /// Throws what a kernel reported: Error(timeout, mismatch) with the call and the rank it waited for,
  /// Error(invalid_argument) for counts that it read. Throws, too, what stopped it or happened while nothing
  /// ran here: Error(peer_lost) when a rank died, Error(aborted) when one failed or aborted. Nothing runs on
  /// this communicator's GPUs after that. From any thread.
  void check();
  /// The device, the ways to the others, and bytes held; several lines.
  [[nodiscard]] std::string explain() const;
  /// Which algorithm, blocks and message form a call would take; one line. Null buffers stand for memory that
  /// was neither allocated nor registered here, out of place.
  [[nodiscard]] std::string explain(const Call& call);

 private:
  std::pair<std::shared_ptr<const void>, void*> allocate_bytes(std::size_t bytes);
  std::unique_ptr<detail::GpuState> state_;
};

}  // namespace tutti
