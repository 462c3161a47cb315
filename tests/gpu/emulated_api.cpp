#include "gpu/emulated_api.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
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

/// One record of an event.
struct EmulatedRecord {
  std::mutex mutex;
  std::condition_variable moved;
  bool reached = false;

  void reach() {
    const std::scoped_lock lock(mutex);
    reached = true;
    moved.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    moved.wait(lock, [this] { return reached; });
  }
};
/// Who waits for an event waits for its last record until then, whatever it is recorded for afterwards.
struct EmulatedEvent {
  std::mutex mutex;
  std::shared_ptr<EmulatedRecord> last{};  ///< nullptr: there was none
};
std::shared_ptr<EmulatedRecord> last_record(gpu::Event event) {
  auto& emulated = *static_cast<EmulatedEvent*>(event);
  const std::scoped_lock lock(emulated.mutex);
  return emulated.last;
}

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
  const std::uint64_t id = ++made_;
  std::unique_ptr<Graph> graph;  ///< while it is captured
  std::uint64_t capture = 0;     ///< then

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

  static inline std::atomic<std::uint64_t> made_{0};
  std::mutex mutex_;
  std::condition_variable moved_;
  std::deque<std::function<void()>> jobs_;
  std::uint64_t added_ = 0, done_ = 0;
  bool over_ = false;
  std::thread thread_;
};

EmulatedApi::EmulatedApi(int devices) : devices_(devices) {}
EmulatedApi::~EmulatedApi() {
  default_streams_.clear();
  for (const auto& [memory, what] : memory_) give_back(memory, what);
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
  if (!mine) mine = std::make_unique<Worker>(current_device());
  return *mine;
}

void EmulatedApi::begin_capture(gpu::Stream stream) {
  worker(stream).graph = std::make_unique<Graph>();
  worker(stream).capture = ++captures_;
}
void EmulatedApi::join_capture(gpu::Stream stream, gpu::Stream other) {
  worker(stream).graph = std::make_unique<Graph>();
  worker(stream).capture = worker(other).capture;
}
EmulatedApi::Graph EmulatedApi::end_capture(gpu::Stream stream) {
  return *std::exchange(worker(stream).graph, nullptr);
}
void EmulatedApi::replay(const Graph& graph, gpu::Stream stream) {
  for (const auto& job : graph) worker(stream).add(job);
}
void EmulatedApi::enqueue(gpu::Stream stream, std::function<void()> job) {
  worker(stream).add(std::move(job));
}

gpu::DeviceId EmulatedApi::device_id(int device) { return {std::byte{1}, static_cast<std::byte>(device)}; }
std::string EmulatedApi::device_name(int) { return "emulated"; }
bool EmulatedApi::reach_device(int other) {
  tell("reach_device");
  return other == current_device() || !peers_apart;
}
std::uint64_t EmulatedApi::address_space() {
  if (processes) return std::hash<std::thread::id>()(std::this_thread::get_id());
  struct stat pid_namespace {};  // process ids repeat between the lab's nodes
  ::stat("/proc/self/ns/pid", &pid_namespace);
  return static_cast<std::uint64_t>(pid_namespace.st_ino) << 32U | static_cast<std::uint64_t>(::getpid());
}

void EmulatedApi::upload(std::byte* to, const std::byte* from, std::size_t bytes) {
  tell("upload");
  ++uploads;
  std::memcpy(to, from, bytes);
}
FileDescriptor EmulatedApi::export_dma_buf(const std::byte*, std::size_t bytes) {
  if (!dma_bufs) throw Error(ErrorCode::unsupported, "the device has no dma-buf");
  FileDescriptor file(::memfd_create("not-a-dma-buf", MFD_CLOEXEC));
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) throw Error(ErrorCode::system, "ftruncate");
  return file;
}

gpu::Stream EmulatedApi::create_stream() {
  tell("create_stream");
  return new Worker(current_device());
}
void EmulatedApi::destroy_stream(gpu::Stream stream) noexcept { delete static_cast<Worker*>(stream); }
int EmulatedApi::stream_device(gpu::Stream stream) {
  if (is_capturing(stream)) throw Error(ErrorCode::system, "cudaStreamGetDevice: the stream is capturing");
  return worker(stream).device;
}
std::uint64_t EmulatedApi::stream_id(gpu::Stream stream) { return worker(stream).id; }
gpu::Capture EmulatedApi::capture_of(gpu::Stream stream) {
  const Worker& asked = worker(stream);
  return asked.graph == nullptr ? gpu::Capture{} : asked.capture;
}
void EmulatedApi::synchronize(gpu::Stream stream) { worker(stream).finish(); }

gpu::Event EmulatedApi::create_event() {
  tell("create_event");
  if (--events_left < 0) throw Error(ErrorCode::system, "cudaEventCreateWithFlags: out of memory");
  ++events;
  return new EmulatedEvent;
}
void EmulatedApi::destroy_event(gpu::Event event) noexcept {
  --events;
  delete static_cast<EmulatedEvent*>(event);
}
void EmulatedApi::record(gpu::Event event, gpu::Stream stream) {
  const auto made = std::make_shared<EmulatedRecord>();
  auto& emulated = *static_cast<EmulatedEvent*>(event);
  {
    const std::scoped_lock lock(emulated.mutex);
    emulated.last = made;
  }
  worker(stream).add([made] { made->reach(); });
}
void EmulatedApi::wait_event(gpu::Stream stream, gpu::Event event) {
  if (const auto last = last_record(event)) worker(stream).add([last] { last->wait(); });
}

bool EmulatedApi::is_reached(gpu::Event event) {
  const auto last = last_record(event);
  if (last == nullptr) return true;
  const std::scoped_lock lock(last->mutex);
  return last->reached;
}
void EmulatedApi::synchronize_event(gpu::Event event) {
  tell("synchronize_event");
  if (const auto last = last_record(event)) last->wait();
}

void EmulatedApi::launch(const gpu::device::Launch& launch, int, int, gpu::Stream stream) {
  tell("launch");
  if (launch.program->one_sided) ++one_sided;
  worker(stream).add([launch] {
    std::vector<std::thread> threads;
    start_launch(threads, launch, threads_a_block);
    for (auto& thread : threads) thread.join();
  });
}
void EmulatedApi::launch_proof(const gpu::device::Membership* group, gpu::device::Proof phase,
                               std::uint32_t* wrong, gpu::Stream stream) {
  worker(stream).add([this, group, phase, wrong] {
    HostBlockState state(1);
    gpu::device::prove(HostBlock(state, 0), *group, phase, wrong);
    if (phase != gpu::device::Proof::write || !corrupts || group->rank != 0) return;
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
    gpu::device::with_format(scale.type, [&]<class Format>() {
      for (int b = 0; b < blocks; ++b)
        for (int t = 0; t < threads_a_block; ++t) gpu::device::scale<Format>(LoneThread{t}, scale, b, blocks);
    });
  });
}

}  // namespace tutti::test
