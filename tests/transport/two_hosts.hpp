/// \file
/// Two hosts on one machine: network namespaces, joined by a pair of virtual interfaces, and a process in
/// each.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "local_group.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace tutti::transport::testing {

class TwoHosts {
 public:
  /// Hosts 10.77.0.1 and 10.77.0.2.
  TwoHosts();
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  /// Empty when they are there; else why not.
  [[nodiscard]] const std::string& missing() const { return missing_; }

  /// Runs `body` as rank 0 and rank 1, each in a process of its own on its host. Returns what went wrong, or
  /// nothing.
  std::string run(void (*body)(tcp::TcpTransport& mine, Rank rank), tcp::TcpOptions options = {});
  /// The same without a transport; `socket` leads to the other rank, message by message.
  std::string run(const std::function<void(Rank rank, int socket)>& body);

 private:
  std::string name_;
  std::string missing_;
};

}  // namespace tutti::transport::testing
