/// \file
/// The connections between two ranks on one channel. Both directions share them: what one end answers carries
/// the acknowledgements of what it got, so a small exchange costs two packets instead of four.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/fork_guard.hpp"

namespace tutti::transport::tcp {

/// Messages in a row that nothing answered, until short ones are gathered.
inline constexpr unsigned gathered_from = 16;

/// Shared by a TcpSender and a TcpReceiver, both used by one thread.
class Streams {
 public:
  /// `congestion`: see congestion.hpp.
  explicit Streams(int count, std::string congestion = {})
      : sockets_(static_cast<std::size_t>(count)), congestion_(std::move(congestion)) {}

  [[nodiscard]] std::size_t size() const { return sockets_.size(); }
  /// -1 while it is not connected.
  [[nodiscard]] int fd(std::size_t stream) const { return sockets_[stream].get(); }
  [[nodiscard]] bool connected(std::size_t stream) const { return static_cast<bool>(sockets_[stream]); }
  void connect(std::size_t stream, PrivateDescriptor socket);

  /// Before a message goes. `may_gather`: nobody waits for it. After many messages of which the peer has
  /// answered none, what does not fill a segment then waits, in the kernel, until the peer has acknowledged
  /// all before it (Nagle's algorithm, RFC 896), and leaves with what comes until then.
  void sends(bool may_gather);
  /// A message has come. One who only receives acknowledges at once what it has read, for who may be
  /// gathering; one who answers does so by its answers.
  void received();
  /// Acknowledges what came, and from now on at once, until something is sent.
  void acknowledge();

 private:
  std::vector<PrivateDescriptor> sockets_;
  std::string congestion_;
  bool gathers_ = false;
  unsigned sent_in_a_row_ = 0, received_in_a_row_ = 0;
};

}  // namespace tutti::transport::tcp
