// A rank that calls before rank 0 listens, and is given rank 0's port for its own end.
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "bootstrap/own_network.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::bootstrap::test {
namespace {

using namespace std::chrono_literals;

// Gives this thread a network of its own, in which `port` is what a connection gets for its own end. False
// where that is not permitted.
bool enter_network_of_one_port(std::uint16_t port) {
  if (!enter_own_network()) return false;
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
