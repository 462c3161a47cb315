// A rank that calls before rank 0 listens, and is given rank 0's port for its own end.
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "bootstrap/socket.hpp"

namespace tutti::bootstrap::test {
namespace {

using namespace std::chrono_literals;

// Gives this thread a network of its own, in which `port` is what a connection gets for its own end. False
// where that is not permitted.
bool enter_network_of_one_port(std::uint16_t port) {
  if (::unshare(CLONE_NEWNET) != 0) return false;
  const FileDescriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback{};
  std::strncpy(static_cast<char*>(loopback.ifr_name), "lo", IFNAMSIZ - 1);
  loopback.ifr_flags = IFF_UP;
  if (::ioctl(any.get(), SIOCSIFFLAGS, &loopback) != 0) return false;
  std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
  range << port << " " << port + 1 << std::flush;
  return static_cast<bool>(range);
}

}  // namespace

TEST(SelfConnection, LeavesThePortToTheListener) {
  bool permitted = false;
  std::thread([&] {
    const Endpoint endpoint{"127.0.0.1", 50000};
    permitted = enter_network_of_one_port(endpoint.port);
    if (!permitted) return;
    for (int i = 0; i < 4; ++i) EXPECT_FALSE(try_connect(endpoint, Deadline(1s)));
    EXPECT_NO_THROW(static_cast<void>(listen_at(endpoint)));
  }).join();
  if (!permitted) GTEST_SKIP() << "no permission to make a network namespace";
}

}  // namespace tutti::bootstrap::test
