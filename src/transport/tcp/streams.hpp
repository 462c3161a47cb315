/// \file
/// The connections between two ranks on one channel. Both directions share them: what one end answers carries
/// the acknowledgements of what it got, so a small exchange costs two packets instead of four
/// (docs/performance.md).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/fork_guard.hpp"

namespace tutti::transport::tcp {

/// Shared by a TcpSender and a TcpReceiver, both used by one thread.
class Streams {
 public:
  /// `congestion`: as TcpOptions has it.
  explicit Streams(int count, std::string congestion = {})
      : sockets_(static_cast<std::size_t>(count)), congestion_(std::move(congestion)) {}

  [[nodiscard]] std::size_t size() const { return sockets_.size(); }
  /// -1 while it is not connected.
  [[nodiscard]] int fd(std::size_t stream) const { return sockets_[stream].get(); }
  [[nodiscard]] bool connected(std::size_t stream) const { return static_cast<bool>(sockets_[stream]); }
  void connect(std::size_t stream, PrivateDescriptor socket);

 private:
  std::vector<PrivateDescriptor> sockets_;
  std::string congestion_;
};

/// The congestion control that a connection gets when `wanted` is the option's value: empty for the system's
/// default. Throws Error(invalid_argument) when this system does not have it.
std::string congestion_control(const std::string& wanted);

}  // namespace tutti::transport::tcp
