#include "transport/tcp/congestion.hpp"

#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>

#include <tutti/error.hpp>

#include "bootstrap/socket.hpp"

namespace tutti::transport::tcp {

namespace {

bool set(int socket, const std::string& name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

// The shortest round trip, which the handshake of a loopback or a switch gives also on a busy host.
bool is_near(int socket) {
  constexpr unsigned near_us = 1000;
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_min_rtt < near_us;
}

}  // namespace

void check_congestion(const std::string& wanted) {
  if (wanted.empty() || wanted == "system") return;
  const auto probe = bootstrap::open_socket(AF_INET);
  if (!set(probe.get(), wanted))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("tcp congestion control \"{}\": {}; `sysctl net.ipv4.tcp_allowed_congestion_control` "
                    "lists those this process may use, \"system\" takes the default",
                    wanted, std::generic_category().message(errno)));
}

// Within a room windows must grow by what a round trip of microseconds acknowledges. Cubic's grow by the
// clock, once HyStart has taken the length of a burst for a queue (RFC 9406, 4.2). BBR paces a burst by what
// earlier ones reached. An all_reduce of a MiB takes 345 us with reno, 980 with cubic, 930 with BBR
// (docs/experiments-devices.md).
void control_congestion(int socket, const std::string& wanted) {
  if (!wanted.empty() && wanted != "system") set(socket, wanted);
  if (wanted.empty() && is_near(socket)) set(socket, "reno");
}

std::string congestion_of(int socket) {
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  socklen_t size = name.size();
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return {};
  return name.data();
}

}  // namespace tutti::transport::tcp
