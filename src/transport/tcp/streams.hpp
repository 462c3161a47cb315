/// \file
/// The connections between two ranks on one channel. Both directions share them: what one end answers carries
/// the acknowledgements of what it got, so a small exchange costs two packets instead of four.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fork_guard.hpp"
#include "transport/tcp/data_socket.hpp"

namespace tutti::transport::tcp {

/// Shared by a TcpSender and a TcpReceiver, both used by one thread.
class Streams {
 public:
  /// `congestion`: see data_socket.hpp.
  explicit Streams(int count, std::string congestion = {})
      : sockets_(static_cast<std::size_t>(count)), congestion_(std::move(congestion)) {}

  [[nodiscard]] std::size_t size() const { return sockets_.size(); }
  /// -1 while it is not connected.
  [[nodiscard]] int fd(std::size_t stream) const { return sockets_[stream].get(); }
  [[nodiscard]] bool connected(std::size_t stream) const { return static_cast<bool>(sockets_[stream]); }
  void connect(std::size_t stream, PrivateDescriptor socket) {
    carry_data(socket.get(), congestion_);
    sockets_[stream] = std::move(socket);
  }

 private:
  std::vector<PrivateDescriptor> sockets_;
  std::string congestion_;
};

}  // namespace tutti::transport::tcp
