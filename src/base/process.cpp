#include "base/process.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/file_descriptor.hpp"

namespace tutti {

bool has_ended(pid_t process) {
  const FileDescriptor descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (descriptor.get() < 0) return ::kill(process, 0) != 0 && errno == ESRCH;
  pollfd one{descriptor.get(), POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

}  // namespace tutti
