#include "transport/tcp/data_socket.hpp"

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

bool set_congestion(int socket, const std::string& name) {
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

// A rank may compute for minutes before it reads what others sent it. TCP_USER_TIMEOUT would take its closed
// window for a dead host (tcp(7)), so data sockets go without; dead hosts are the session's business.
void allow_slow_reader(int socket) {
  const unsigned off = 0;
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &off, sizeof off);
}

// Within a room windows must grow by what a round trip of microseconds acknowledges. Cubic's grow by the
// clock, once HyStart has taken the length of a burst for a queue (RFC 9406, 4.2). BBR paces a burst by what
// earlier ones reached. An all_reduce of a MiB takes 345 us with reno, 980 with cubic, 930 with BBR
// (docs/experiments-devices.md).
void control_congestion(int socket, const std::string& wanted) {
  if (!wanted.empty() && wanted != "system") set_congestion(socket, wanted);
  if (wanted.empty() && is_near(socket)) set_congestion(socket, "reno");
}

}  // namespace

void check_congestion(const std::string& congestion) {
  if (congestion.empty() || congestion == "system") return;
  const auto probe = bootstrap::open_socket(AF_INET);
  if (!set_congestion(probe.get(), congestion))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tcp congestion control \"{}\" (TUTTI_TCP_CONGESTION): {}; `sysctl "
                            "net.ipv4.tcp_allowed_congestion_control` lists those this process may use, "
                            "\"system\" takes the default",
                            congestion, std::generic_category().message(errno)));
}

void carry_data(int socket, const std::string& congestion) {
  allow_slow_reader(socket);
  control_congestion(socket, congestion);
}

std::string congestion_of(int socket) {
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  socklen_t size = name.size();
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return {};
  return name.data();
}

}  // namespace tutti::transport::tcp
