/// \file
/// A network for one test.
#pragma once

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include "base/file_descriptor.hpp"

namespace tutti::bootstrap::test {

/// Gives this thread a network of its own, with a loopback, and what else unshare(2) is asked for. False
/// where that is not permitted.
inline bool enter_own_network(int also = 0) {
  if (::unshare(CLONE_NEWNET | also) != 0) return false;
  const FileDescriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback{};
  std::strncpy(static_cast<char*>(loopback.ifr_name), "lo", IFNAMSIZ - 1);
  loopback.ifr_flags = IFF_UP;
  return ::ioctl(any.get(), SIOCSIFFLAGS, &loopback) == 0;
}

}  // namespace tutti::bootstrap::test
