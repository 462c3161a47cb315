#include "transport/shm/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "base/memory_file.hpp"
#include "base/system_error.hpp"
#include "transport/shm/map_error.hpp"

namespace tutti::transport::shm {

namespace {

constexpr std::string_view its_memory = "the shared memory of a communicator";

[[noreturn]] void throw_unmade(int why) {
  std::string what = "cannot make the shared memory of a communicator (memfd_create)";
  if (why == EPERM || why == ENOSYS || why == EACCES)
    what += "; have the sandbox of this process permit the call";
  throw_errno(what, why);
}

}  // namespace

std::shared_ptr<Arena> Arena::create(int ranks) {
  FileDescriptor memory = make_memory_file("tutti");
  if (!memory) throw_unmade(errno);
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
  if (base == MAP_FAILED) throw_unmapped(its_memory, bytes, errno);
  base_ = static_cast<std::byte*>(base);
  ::munlock(base, bytes);
  if (::mprotect(base, bytes, PROT_READ | PROT_WRITE) != 0) {
    const int why = errno;
    ::munmap(base, bytes);
    throw_unmapped(its_memory, bytes, why);
  }
  ::madvise(base, bytes, MADV_DONTDUMP);  // or a core dump would read, and so fill, all of it
}

Arena::~Arena() { ::munmap(base_, layout_.mapped_bytes); }

}  // namespace tutti::transport::shm
