#include "transport/tcp/data_socket.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "transport/tcp/congestion.hpp"

namespace tutti::transport::tcp {

namespace {

/// A rank may compute for minutes before it reads what others sent it. TCP_USER_TIMEOUT would take its closed
/// window for a dead host (tcp(7)), so data sockets go without; dead hosts are the session's business.
void allow_slow_reader(int socket) {
  const unsigned off = 0;
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &off, sizeof off);
}

}  // namespace

void carry_data(int socket, const std::string& congestion) {
  allow_slow_reader(socket);
  control_congestion(socket, congestion);
}

}  // namespace tutti::transport::tcp
