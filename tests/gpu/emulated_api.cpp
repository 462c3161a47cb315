#include "gpu/emulated_api.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

#include <tutti/error.hpp>

#include "gpu/device/proof.hpp"
#include "gpu/host_block.hpp"

namespace tutti::test {

namespace {

constexpr int threads_a_block = 2;
constexpr std::size_t memory_align = 256;
thread_local int the_device = 0;

/// An event counts its records.
struct EmulatedEvent {
  std::mutex mutex;
  std::condition_variable moved;
  std::uint64_t recorded = 0, reached = 0;
};
using SharedEvent = std::shared_ptr<EmulatedEvent>;

/// For device code without barriers: its threads run one after the other.
struct LoneThread {
  int index;
  [[nodiscard]] int thread() const { return index; }
  [[nodiscard]] static int threads() { return threads_a_block; }
};

}  // namespace

class EmulatedApi::Worker {
 public:
  explicit Worker(int on_device) : device(on_device), thread_([this] { work(); }) {}
  ~Worker() {
    add([this] { over_ = true; });
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void add(std::function<void()> job) {
    {
      const std::scoped_lock lock(mutex_);
      if (graph) {
        graph->push_back(std::move(job));
        return;
      }
      jobs_.push_back(std::move(job));
      ++added_;
    }
    moved_.notify_all();
  }
  void finish() {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [this, until = added_] { return done_ >= until; });
  }

  const int device;
  std::unique_ptr<Graph> graph;  ///< while it is captured

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      moved_.wait(lock, [this] { return !jobs_.empty(); });
      const auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
      ++done_;
      moved_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable moved_;
  std::deque<std::function<void()>> jobs_;
  std::uint64_t added_ = 0, done_ = 0;
  bool over_ = false;
  std::thread thread_;
};

EmulatedApi::EmulatedApi(int devices) : devices_(devices) {}
EmulatedApi::EmulatedApi(std::span<std::byte> pool) : devices_(1), pool_(pool) {}
EmulatedApi::~EmulatedApi() {
  default_streams_.clear();
  for (const auto& [memory, what] : memory_)
    if (what.owned) give_back(memory);
}

std::byte* EmulatedApi::take(std::size_t bytes) {
  if (pool_begin_ == nullptr) return static_cast<std::byte*>(std::aligned_alloc(memory_align, bytes));
  const std::scoped_lock lock(mutex_);
  if (bytes > pool_.size()) throw Error(ErrorCode::system, "cudaMalloc: out of memory");
  std::byte* memory = pool_.data();
  pool_ = pool_.subspan(bytes);
  return memory;
}
void EmulatedApi::give_back(std::byte* memory) const {
  if (memory < pool_begin_ || memory >= pool_end_) std::free(memory);
}

std::size_t EmulatedApi::bytes_held() {
  const std::scoped_lock lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [_, memory] : memory_) bytes += memory.bytes;
  return bytes;
}

EmulatedApi::Worker& EmulatedApi::worker(gpu::Stream stream) {
  if (stream != nullptr) return *static_cast<Worker*>(stream);
  const std::scoped_lock lock(mutex_);
  auto& mine = default_streams_[std::this_thread::get_id()];
  if (!mine) mine = std::make_unique<Worker>(the_device);
  return *mine;
}

void EmulatedApi::begin_capture(gpu::Stream stream) { worker(stream).graph = std::make_unique<Graph>(); }
EmulatedApi::Graph EmulatedApi::end_capture(gpu::Stream stream) {
  return *std::exchange(worker(stream).graph, nullptr);
}
void EmulatedApi::replay(const Graph& graph, gpu::Stream stream) {
  for (const auto& job : graph) worker(stream).add(job);
}
void EmulatedApi::enqueue(gpu::Stream stream, std::function<void()> job) {
  worker(stream).add(std::move(job));
}

int EmulatedApi::current_device() { return the_device; }
void EmulatedApi::set_device(int device) {
  if (device < 0 || device >= devices_)
    throw Error(ErrorCode::system, "cudaSetDevice: invalid device ordinal");
  the_device = device;
}
gpu::DeviceId EmulatedApi::device_id(int device) { return {std::byte{1}, static_cast<std::byte>(device)}; }
std::string EmulatedApi::device_name(int) { return "emulated"; }
bool EmulatedApi::reach_device(int other) { return other == the_device || !peers_apart; }
std::uint64_t EmulatedApi::address_space() {
  if (pool_begin_ != nullptr) return static_cast<std::uint64_t>(::getpid());
  return processes ? std::hash<std::thread::id>()(std::this_thread::get_id()) : 1;
}

gpu::Pointer EmulatedApi::look_at(const void* pointer) {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(pointer));
  const std::scoped_lock lock(mutex_);
  auto next = memory_.upper_bound(at);
  if (next == memory_.begin()) return {};
  --next;
  return at < next->first + next->second.bytes ? next->second.what : gpu::Pointer{};
}
std::byte* EmulatedApi::add(std::size_t bytes, gpu::Pointer what) {
  std::byte* memory = take((bytes + memory_align - 1) / memory_align * memory_align);
  std::memset(memory, 0, bytes);
  const std::scoped_lock lock(mutex_);
  memory_[memory] = {bytes, what, true};
  return memory;
}
void EmulatedApi::remove(std::byte* memory) noexcept {
  if (memory == nullptr) return;
  {
    const std::scoped_lock lock(mutex_);
    memory_.erase(memory);
  }
  give_back(memory);
}
std::byte* EmulatedApi::allocate(std::size_t bytes) {
  return add(bytes, {gpu::Pointer::Kind::device, the_device});
}
void EmulatedApi::free(std::byte* memory) noexcept { remove(memory); }
std::byte* EmulatedApi::allocate_pinned(std::size_t bytes) {
  return add(bytes, {gpu::Pointer::Kind::pinned, -1});
}
void EmulatedApi::free_pinned(std::byte* memory) noexcept { remove(memory); }
void EmulatedApi::pin(std::byte* memory, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  memory_[memory] = {bytes, {gpu::Pointer::Kind::pinned, -1}, false};
}
void EmulatedApi::unpin(std::byte* memory) noexcept {
  const std::scoped_lock lock(mutex_);
  memory_.erase(memory);
}
void EmulatedApi::upload(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
gpu::IpcHandle EmulatedApi::export_memory(std::byte* memory) {
  gpu::IpcHandle handle{};
  std::memcpy(handle.data(), &memory, sizeof memory);
  return handle;
}
std::byte* EmulatedApi::import_memory(const gpu::IpcHandle& handle) {
  if (refuses_imports) throw Error(ErrorCode::system, "the test refuses it");
  std::byte* memory = nullptr;
  std::memcpy(&memory, handle.data(), sizeof memory);
  ++imports;
  return memory;
}
void EmulatedApi::forget_import(std::byte* memory) noexcept {
  if (memory != nullptr) --imports;
}

gpu::Stream EmulatedApi::create_stream() { return new Worker(the_device); }
void EmulatedApi::destroy_stream(gpu::Stream stream) noexcept { delete static_cast<Worker*>(stream); }
int EmulatedApi::stream_device(gpu::Stream stream) { return worker(stream).device; }
bool EmulatedApi::is_capturing(gpu::Stream stream) { return worker(stream).graph != nullptr; }
void EmulatedApi::synchronize(gpu::Stream stream) { worker(stream).finish(); }

gpu::Event EmulatedApi::create_event() { return new SharedEvent(std::make_shared<EmulatedEvent>()); }
void EmulatedApi::destroy_event(gpu::Event event) noexcept { delete static_cast<SharedEvent*>(event); }
void EmulatedApi::record(gpu::Event event, gpu::Stream stream) {
  const SharedEvent shared = *static_cast<SharedEvent*>(event);
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(shared->mutex);
    number = ++shared->recorded;
  }
  worker(stream).add([shared, number] {
    const std::scoped_lock lock(shared->mutex);
    shared->reached = std::max(shared->reached, number);
    shared->moved.notify_all();
  });
}
void EmulatedApi::wait_event(gpu::Stream stream, gpu::Event event) {
  const SharedEvent shared = *static_cast<SharedEvent*>(event);
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(shared->mutex);
    number = shared->recorded;
  }
  worker(stream).add([shared, number] {
    std::unique_lock lock(shared->mutex);
    shared->moved.wait(lock, [&] { return shared->reached >= number; });
  });
}

bool EmulatedApi::is_reached(gpu::Event event) {
  const SharedEvent shared = *static_cast<SharedEvent*>(event);
  const std::scoped_lock lock(shared->mutex);
  return shared->reached >= shared->recorded;
}
void EmulatedApi::synchronize_event(gpu::Event event) {
  const SharedEvent shared = *static_cast<SharedEvent*>(event);
  std::unique_lock lock(shared->mutex);
  shared->moved.wait(lock, [&] { return shared->reached >= shared->recorded; });
}

void EmulatedApi::launch(const gpu::device::Launch& launch, int, int, gpu::Stream stream) {
  worker(stream).add([launch] {
    std::vector<std::thread> threads;
    start_launch(threads, launch, threads_a_block);
    for (auto& thread : threads) thread.join();
  });
}
void EmulatedApi::launch_proof(const gpu::device::Membership* group, int phase, std::uint32_t* wrong,
                               gpu::Stream stream) {
  worker(stream).add([this, group, phase, wrong] {
    HostBlockState state(1);
    gpu::device::prove(HostBlock(state, 0), *group, phase, wrong);
    if (phase != 0 || !corrupts || group->rank != 0) return;
    // Host memory is wrong only if there is nothing else.
    if (group->by_mail(1) && !group->by_mail(group->size - 1) && group->size > 2) return;
    std::byte* const proof = group->by_mail(1) ? group->outboxes[1] + gpu::device::Mailbox::proof()
                                               : group->arenas[1] + group->arena.proof(0);
    auto* word = reinterpret_cast<std::uint64_t*>(proof) + 17;
    gpu::device::store_release_system(word, 42);
  });
}
void EmulatedApi::launch_scale(const gpu::device::Scale& scale, gpu::Stream stream) {
  constexpr int blocks = 3;
  worker(stream).add([scale] {
    for (int b = 0; b < blocks; ++b)
      for (int t = 0; t < threads_a_block; ++t) gpu::device::scale(LoneThread{t}, scale, b, blocks);
  });
}

}  // namespace tutti::test
