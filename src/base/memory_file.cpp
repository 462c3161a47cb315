#include "base/memory_file.hpp"

#include <sys/mman.h>

#include <cerrno>

namespace tutti {

FileDescriptor make_memory_file(const char* name) {
#ifdef MFD_NOEXEC_SEAL
  constexpr unsigned not_executable = MFD_NOEXEC_SEAL;
#else
  constexpr unsigned not_executable = 8;  // linux/memfd.h; Debian 12's headers are older than it
#endif
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  FileDescriptor file(::memfd_create(name, flags | not_executable));
  return file || errno != EINVAL ? std::move(file) : FileDescriptor(::memfd_create(name, flags));
}

}  // namespace tutti
