/// \file
/// A network for one test.
#pragma once

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/file_descriptor.hpp"

namespace tutti::bootstrap::test {

/// Gives this thread a network of its own, whose loopback is down, and what else unshare(2) is asked for.
/// False where that is not permitted; who is not root needs to be the only thread of its process.
inline bool enter_bare_network(int also = 0) {
  return ::unshare(CLONE_NEWNET | also | (::geteuid() == 0 ? 0 : CLONE_NEWUSER)) == 0;
}

/// The same with a loopback.
inline bool enter_own_network(int also = 0) {
  if (!enter_bare_network(also)) return false;
  const FileDescriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback{};
  std::strncpy(static_cast<char*>(loopback.ifr_name), "lo", IFNAMSIZ - 1);
  loopback.ifr_flags = IFF_UP;
  return ::ioctl(any.get(), SIOCSIFFLAGS, &loopback) == 0;
}

/// False also where there is no ip(8).
inline bool run_ip(const std::string& arguments) {
  return std::system(("ip " + arguments).c_str()) == 0;  // NOLINT(cert-env33-c)
}

}  // namespace tutti::bootstrap::test
