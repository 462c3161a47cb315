// The memory of an emulated device. What other processes can open is a memfd; a fabric handle says where one
// is in /proc; a handle of CUDA IPC is an address, which threads that pass for processes share.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <tutti/error.hpp>

#include "gpu/emulated_api.hpp"

namespace tutti::test {

namespace {

constexpr std::size_t memory_align = 256;
thread_local int the_device = 0;

/// What is in a MemoryHandle.
struct Token {
  pid_t process;
  int descriptor;
  std::byte* memory;
};

gpu::MemoryHandle handle_of(const Token& token) {
  gpu::MemoryHandle handle{};
  std::memcpy(handle.data(), &token, sizeof token);
  return handle;
}

[[noreturn]] void refuse(const char* what) {
  throw Error(ErrorCode::system, std::string(what) + ": the test refuses it");
}

std::byte* map(int descriptor, std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) throw Error(ErrorCode::system, std::string("mmap: ") + std::strerror(errno));
  return static_cast<std::byte*>(memory);
}

}  // namespace

int EmulatedApi::current_device() { return the_device; }
void EmulatedApi::set_device(int device) {
  if (refuses_devices) refuse("cudaSetDevice");
  if (device < 0 || device >= devices_)
    throw Error(ErrorCode::system, "cudaSetDevice: invalid device ordinal");
  the_device = device;
}

std::map<std::byte*, EmulatedApi::Memory>::iterator EmulatedApi::find(const void* pointer) {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(pointer));
  auto next = memory_.upper_bound(at);
  if (next == memory_.begin()) return memory_.end();
  --next;
  return at < next->first + next->second.bytes ? next : memory_.end();
}
gpu::Pointer EmulatedApi::look_at(const void* pointer) {
  const std::scoped_lock lock(mutex_);
  const auto found = find(pointer);
  return found == memory_.end() ? gpu::Pointer{} : found->second.what;
}
std::uint64_t EmulatedApi::allocation_id(const void* pointer) {
  const std::scoped_lock lock(mutex_);
  const auto found = find(pointer);
  return found == memory_.end() ? 0 : found->second.id;
}

void EmulatedApi::add(std::byte* memory, const Memory& what) {
  const std::scoped_lock lock(mutex_);
  memory_[memory] = what;
  memory_[memory].id = ++allocations_;
}
std::byte* EmulatedApi::allocate(std::size_t bytes, gpu::Pointer what) {
  auto* memory = static_cast<std::byte*>(
      std::aligned_alloc(memory_align, (bytes + memory_align - 1) / memory_align * memory_align));
  std::memset(memory, 0, bytes);
  add(memory, {bytes, what});
  return memory;
}
void EmulatedApi::give_back(std::byte* memory, const Memory& what) noexcept {
  if (!what.owned) return;
  if (what.descriptor < 0) return std::free(memory);
  ::munmap(memory, what.bytes);
  ::close(what.descriptor);
}
void EmulatedApi::remove(std::byte* memory) noexcept {
  if (memory == nullptr) return;
  Memory what;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = memory_.find(memory);
    if (found == memory_.end()) return;
    what = found->second;
    memory_.erase(found);
  }
  give_back(memory, what);
}

std::byte* EmulatedApi::allocate(std::size_t bytes) {
  tell("allocate");
  if (refuses_memory) refuse("cudaMalloc");
  return allocate(bytes, {gpu::Pointer::Kind::device, the_device});
}
bool EmulatedApi::free(std::byte* memory) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (opened_by_ipc_.contains(memory)) ++freed_while_open;
    const auto found = memory_.find(memory);
    if (found == memory_.end()) return false;
    if (found->second.what.kind == gpu::Pointer::Kind::device && found->second.what.device != the_device)
      ++freed_elsewhere;
  }
  remove(memory);
  return true;
}
std::byte* EmulatedApi::allocate_pinned(std::size_t bytes) {
  return allocate(bytes, {gpu::Pointer::Kind::pinned, -1});
}
std::byte* EmulatedApi::allocate_managed(std::size_t bytes) {
  return allocate(bytes, {gpu::Pointer::Kind::managed, -1});
}
void EmulatedApi::free_pinned(std::byte* memory) noexcept { remove(memory); }
void EmulatedApi::pin(std::byte* memory, std::size_t bytes) {
  tell("pin");
  add(memory, {bytes, {gpu::Pointer::Kind::pinned, -1}, false});
}
void EmulatedApi::unpin(std::byte* memory) noexcept { remove(memory); }

std::string EmulatedApi::why_not_shared(gpu::Sharing how) {
  if (how == gpu::Sharing::ipc) return {};
  if (!offers_descriptors) return "the test has no descriptors";
  return how == gpu::Sharing::fabric && !offers_fabric ? "the test has no fabric" : "";
}
std::byte* EmulatedApi::allocate_shared(std::size_t bytes, bool fabric) {
  if (!offers_descriptors) refuse("cuMemCreate");
  if (fabric && !permits_fabric) refuse("cuMemCreate for a fabric");
  constexpr std::size_t page = 4096;
  Memory what{(bytes + page - 1) / page * page, {gpu::Pointer::Kind::device, the_device}};
  what.descriptor = ::memfd_create("emulated", MFD_CLOEXEC);
  what.fabric = fabric;
  if (::ftruncate(what.descriptor, static_cast<off_t>(what.bytes)) != 0) std::abort();
  std::byte* memory = map(what.descriptor, what.bytes);
  add(memory, what);
  return memory;
}

gpu::Export EmulatedApi::export_memory(const std::byte* memory) {
  const std::scoped_lock lock(mutex_);
  const auto found = find(memory);
  if (found == memory_.end()) throw Error(ErrorCode::system, "cudaIpcGetMemHandle: invalid argument");
  const auto& [begin, what] = *found;
  gpu::Export exported;
  exported.begin = begin;
  exported.bytes = what.bytes;
  const auto handle = handle_of({::getpid(), what.descriptor, begin});
  if (what.descriptor < 0)
    exported.ipc = handle;
  else
    exported.descriptor = FileDescriptor(::fcntl(what.descriptor, F_DUPFD_CLOEXEC, 0));
  if (what.fabric) exported.fabric = handle;
  return exported;
}
std::byte* EmulatedApi::open_descriptor(const FileDescriptor& descriptor, std::size_t bytes) {
  if (!opens_descriptors) refuse("cuMemImportFromShareableHandle");
  std::byte* memory = map(descriptor.get(), bytes);
  ++imports;
  const std::scoped_lock lock(mutex_);
  opened_[memory] = bytes;
  return memory;
}
std::byte* EmulatedApi::open_handle(gpu::Sharing how, const gpu::MemoryHandle& handle, std::size_t bytes) {
  const bool fabric = how == gpu::Sharing::fabric;
  if (fabric ? !opens_fabric : !opens_ipc)
    refuse(fabric ? "cuMemImportFromShareableHandle" : "cudaIpcOpenMemHandle");
  Token token;
  std::memcpy(&token, handle.data(), sizeof token);
  if (fabric) {
    const std::string path =
        "/proc/" + std::to_string(token.process) + "/fd/" + std::to_string(token.descriptor);
    const FileDescriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    std::byte* memory = map(descriptor.get(), bytes);
    ++imports;
    const std::scoped_lock lock(mutex_);
    opened_[memory] = bytes;
    return memory;
  }
  if (token.process != ::getpid()) throw Error(ErrorCode::system, "cudaIpcOpenMemHandle: invalid handle");
  ++imports;
  const std::scoped_lock lock(mutex_);
  opened_by_ipc_.insert(token.memory);
  return token.memory;
}
void EmulatedApi::close(std::byte* memory) noexcept {
  if (memory == nullptr) return;
  tell("close");
  --imports;
  std::size_t bytes = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (auto node = opened_.extract(memory))
      bytes = node.mapped();
    else
      static_cast<void>(opened_by_ipc_.extract(memory));
  }
  if (bytes != 0) ::munmap(memory, bytes);
}

}  // namespace tutti::test
