#include "transport/shm/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>

#include "base/futex.hpp"
#include "base/memory_file.hpp"
#include "base/system_error.hpp"

namespace tutti::transport::shm {

std::shared_ptr<Arena> Arena::create(int ranks) {
  FileDescriptor memory = make_memory_file("tutti");
  if (!memory) throw_errno("memfd_create");
  const std::uint64_t bytes = Layout(ranks).file_bytes;
  // Beyond that limit there would be a signal that ends the process.
  if (rlimit limit{}; ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
    throw_errno("cannot size the shared memory of a communicator, " + std::to_string(bytes >> 30U) +
                    " GiB of which hardly any is used; raise the limit of the size of files (ulimit -f)",
                EFBIG);
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0)
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
