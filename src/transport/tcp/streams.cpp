#include "transport/tcp/streams.hpp"

#include <utility>

#include "transport/tcp/data_socket.hpp"

namespace tutti::transport::tcp {

void Streams::connect(std::size_t stream, PrivateDescriptor socket) {
  carry_data(socket.get(), congestion_);
  sockets_[stream] = std::move(socket);
}

}  // namespace tutti::transport::tcp
