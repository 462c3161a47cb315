#include "transport/shm/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>

#include "base/memory_file.hpp"
#include "base/system_error.hpp"

namespace tutti::transport::shm {

namespace {

[[noreturn]] void throw_unmapped(std::size_t bytes, int why) {
  std::string what =
      "cannot map the shared memory of a communicator, " + std::to_string(bytes >> 20U) + " MiB";
  if (why == EAGAIN)
    what +=
        ", since this process locks what it maps (mlockall); raise the limit of locked memory (ulimit -l)";
  if (why == ENOMEM)
    what += " of addresses, of which hardly any take memory; raise the limit of address space (ulimit -v)";
  throw_errno(what, why);
}

}  // namespace

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
  const std::size_t bytes = layout_.mapped_bytes;
  // Accessible only once it is not locked, or a process that locks its memory would fill all of it.
  void* base = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, memory_.get(), 0);
  if (base == MAP_FAILED) throw_unmapped(bytes, errno);
  base_ = static_cast<std::byte*>(base);
  ::munlock(base, bytes);
  if (::mprotect(base, bytes, PROT_READ | PROT_WRITE) != 0) {
    const int why = errno;
    ::munmap(base, bytes);
    throw_unmapped(bytes, why);
  }
  ::madvise(base, bytes, MADV_DONTDUMP);  // or a core dump would read, and so fill, all of it
}

Arena::~Arena() { ::munmap(base_, layout_.mapped_bytes); }

}  // namespace tutti::transport::shm
