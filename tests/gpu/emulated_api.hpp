/// \file
/// A CUDA runtime of host threads: device memory is host memory that it knows the ranges of, a stream is a
/// thread that does one job after the other, a launch runs the host form of the kernels, and a graph is a
/// list of jobs.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gpu/api.hpp"

namespace tutti::test {

class EmulatedApi final : public gpu::Api {
 public:
  using Graph = std::vector<std::function<void()>>;
  explicit EmulatedApi(int devices = 1);
  ~EmulatedApi() override;

  // What tests plant.
  std::atomic<bool> processes{false};    ///< every thread is a process: pointers mean something to one only
  std::atomic<bool> corrupts{false};     ///< what a rank writes to another in the proof arrives wrong
  std::atomic<bool> peers_apart{false};  ///< devices do not reach each other
  std::atomic<bool> offers_descriptors{true}, offers_fabric{false};  ///< what the driver says that it can
  std::atomic<bool> permits_fabric{true};                            ///< and whether that is true
  std::atomic<bool> opens_descriptors{true}, opens_fabric{true}, opens_ipc{true};
  std::atomic<bool> dma_bufs{false};
  std::atomic<gpu::NetworkWrites> writes{gpu::NetworkWrites::in_order};
  std::atomic<bool> refuses_devices{false}, refuses_memory{false};
  std::atomic<int> events_left{1 << 20};  ///< that can be made
  /// Told of some calls before they are done, by name; may throw. Set before there are threads.
  std::function<void(std::string_view call)> before;
  std::atomic<int> flushes{0};
  std::atomic<int> resident{1 << 20};           ///< blocks that run side by side
  std::atomic<bool> one_default_stream{false};  ///< else every thread has its own
  std::atomic<int> one_sided{0};                ///< launches that worked on everybody's buffers
  std::atomic<int> imports{0};                  ///< memory opened and not closed
  std::atomic<int> events{0};                   ///< made and not destroyed
  std::atomic<int> uploads{0};
  std::atomic<int> freed_while_open{0};  ///< memory that others had open by CUDA IPC
  std::atomic<int> freed_elsewhere{0};   ///< memory of a device while another one was current
  [[nodiscard]] std::size_t bytes_held();
  std::byte* allocate_managed(std::size_t bytes);  ///< that of cudaMallocManaged
  void begin_capture(gpu::Stream stream);
  /// `stream` takes part in the capture of `other`; what it is given is a graph of its own.
  void join_capture(gpu::Stream stream, gpu::Stream other);
  Graph end_capture(gpu::Stream stream);
  void replay(const Graph& graph, gpu::Stream stream);
  /// A job of the test's own.
  void enqueue(gpu::Stream stream, std::function<void()> job);

  int device_count() override { return devices_; }
  int current_device() override;
  void set_device(int device) override;
  gpu::DeviceId device_id(int device) override;
  std::string device_name(int device) override;
  bool reach_device(int other) override;
  void load_kernels() override { tell("load_kernels"); }
  int resident_blocks() override { return resident; }
  std::uint64_t address_space() override;
  gpu::Pointer look_at(const void* pointer) override;
  std::byte* allocate(std::size_t bytes) override;
  bool free(std::byte* memory) noexcept override;
  std::byte* allocate_pinned(std::size_t bytes) override;
  void free_pinned(std::byte* memory) noexcept override;
  void pin(std::byte* memory, std::size_t bytes) override;
  void unpin(std::byte* memory) noexcept override;
  void upload(std::byte* to, const std::byte* from, std::size_t bytes) override;
  std::uint64_t allocation_id(const void* pointer) override;
  std::string why_not_shared(gpu::Sharing how) override;
  std::byte* allocate_shared(std::size_t bytes, bool fabric) override;
  gpu::Export export_memory(const std::byte* memory) override;
  std::byte* open_descriptor(const FileDescriptor& descriptor, std::size_t bytes) override;
  std::byte* open_handle(gpu::Sharing how, const gpu::MemoryHandle& handle, std::size_t bytes) override;
  void close(std::byte* memory) noexcept override;
  FileDescriptor export_dma_buf(const std::byte* memory, std::size_t bytes) override;
  gpu::NetworkWrites network_writes() override { return writes; }
  void flush_network_writes() override { ++flushes; }
  gpu::Stream create_stream() override;
  void destroy_stream(gpu::Stream stream) noexcept override;
  int stream_device(gpu::Stream stream) override;
  std::uint64_t stream_id(gpu::Stream stream) override;
  bool is_common(gpu::Stream stream) override { return one_default_stream && stream == nullptr; }
  gpu::Capture capture_of(gpu::Stream stream) override;
  void synchronize(gpu::Stream stream) override;
  gpu::Event create_event() override;
  void destroy_event(gpu::Event event) noexcept override;
  void record(gpu::Event event, gpu::Stream stream) override;
  void wait_event(gpu::Stream stream, gpu::Event event) override;
  bool is_reached(gpu::Event event) override;
  void synchronize_event(gpu::Event event) override;
  void launch(const gpu::device::Launch& launch, int lanes, int slices, gpu::Stream stream) override;
  void launch_proof(const gpu::device::Membership* group, gpu::device::Proof phase, std::uint32_t* wrong,
                    gpu::Stream stream) override;
  void launch_scale(const gpu::device::Scale& scale, gpu::Stream stream) override;

 private:
  struct Memory {
    std::size_t bytes;
    gpu::Pointer what;
    bool owned = true;
    std::uint64_t id = 0;
    int descriptor = -1;  ///< of memory that can be shared: a memfd
    bool fabric = false;
  };
  class Worker;
  void tell(std::string_view call) const {
    if (before) before(call);
  }
  void add(std::byte* memory, const Memory& what);
  std::byte* allocate(std::size_t bytes, gpu::Pointer what);
  static void give_back(std::byte* memory, const Memory& what) noexcept;
  void remove(std::byte* memory) noexcept;
  std::map<std::byte*, Memory>::iterator find(const void* pointer);
  Worker& worker(gpu::Stream stream);

  int devices_;
  std::mutex mutex_;
  std::map<std::byte*, Memory> memory_;
  std::uint64_t allocations_ = 0;
  std::atomic<std::uint64_t> captures_{0};
  std::map<std::byte*, std::size_t> opened_;  ///< mapped here, of others
  std::multiset<std::byte*> opened_by_ipc_;
  std::map<std::thread::id, std::unique_ptr<Worker>>
      default_streams_;  ///< one a rank, so that ranks run side by side
};

}  // namespace tutti::test
