#include "transport/tcp/streams.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "transport/tcp/data_socket.hpp"

namespace tutti::transport::tcp {

namespace {

void set_all(const std::vector<PrivateDescriptor>& sockets, int option, bool on) {
  const int value = on ? 1 : 0;
  for (const auto& socket : sockets)
    if (socket) ::setsockopt(socket.get(), IPPROTO_TCP, option, &value, sizeof value);
}

}  // namespace

void Streams::connect(std::size_t stream, PrivateDescriptor socket) {
  carry_data(socket.get(), congestion_);
  sockets_[stream] = std::move(socket);
}

void Streams::sends(bool may_gather) {
  received_in_a_row_ = 0;
  const bool gathered = ++sent_in_a_row_ > gathered_from && may_gather;
  if (gathered == gathers_) return;
  gathers_ = gathered;
  set_all(sockets_, TCP_NODELAY, !gathered);
}

void Streams::received() {
  sent_in_a_row_ = 0;
  if (++received_in_a_row_ == 2) acknowledge();
}

void Streams::acknowledge() { set_all(sockets_, TCP_QUICKACK, true); }

}  // namespace tutti::transport::tcp
