#include "transport/shm/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/futex.hpp"
#include "base/system_error.hpp"

namespace tutti::transport::shm {

std::shared_ptr<Arena> Arena::create(int ranks) {
  FileDescriptor memory(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) throw_errno("memfd_create");
  if (::ftruncate(memory.get(), static_cast<off_t>(Layout(ranks).file_bytes)) != 0)
    throw_errno("cannot size the shared memory of a communicator");
  // No peer can shrink the file under another one's feet (SIGBUS).
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) throw_errno("F_ADD_SEALS");
  return std::make_shared<Arena>(std::move(memory), ranks);
}

Arena::Arena(FileDescriptor memory, int ranks) : layout_(ranks), memory_(std::move(memory)) {
  void* base = ::mmap(nullptr, layout_.mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                      memory_.get(), 0);
  if (base == MAP_FAILED) throw_errno("cannot map the shared memory of a communicator");
  base_ = static_cast<std::byte*>(base);
}

Arena::~Arena() { ::munmap(base_, layout_.mapped_bytes); }

}  // namespace tutti::transport::shm
