#include "transport/tcp/streams.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include <tutti/error.hpp>

#include "base/file_descriptor.hpp"

namespace tutti::transport::tcp {

namespace {

bool set_congestion(int socket, const std::string& name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

std::string default_congestion(int socket) {
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  socklen_t size = name.size();
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return {};
  return name.data();
}

/// A rank may compute for minutes before it reads what others sent it. TCP_USER_TIMEOUT would take its closed
/// window for a dead host (tcp(7)), so data sockets go without; dead hosts are the session's business.
void allow_slow_reader(int socket) {
  const unsigned off = 0;
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &off, sizeof off);
}

}  // namespace

void Streams::connect(std::size_t stream, PrivateDescriptor socket) {
  allow_slow_reader(socket.get());
  if (!congestion_.empty()) set_congestion(socket.get(), congestion_);
  sockets_[stream] = std::move(socket);
}

// BBR paces by what it has measured. What a collective sends comes in bursts, and each is then held to the
// rate of those before: a MiB took 574 us on a path that moves it in 96 (docs/performance.md).
std::string congestion_control(const std::string& wanted) {
  if (wanted == "system") return {};
  const FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!wanted.empty()) {
    if (!set_congestion(probe.get(), wanted))
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("tcp congestion control \"{}\": {}; `sysctl net.ipv4.tcp_allowed_congestion_control` "
                      "lists those this process may use, \"system\" takes the default",
                      wanted, std::generic_category().message(errno)));
    return wanted;
  }
  return default_congestion(probe.get()) == "bbr" && set_congestion(probe.get(), "cubic") ? "cubic" : "";
}

}  // namespace tutti::transport::tcp
