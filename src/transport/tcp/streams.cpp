#include "transport/tcp/streams.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

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

void Streams::connect(std::size_t stream, PrivateDescriptor socket) {
  allow_slow_reader(socket.get());
  control_congestion(socket.get(), congestion_);
  sockets_[stream] = std::move(socket);
}

}  // namespace tutti::transport::tcp
