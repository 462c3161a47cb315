/// \file
/// Where peers connect: one listening socket of a session, shared by a communicator and those split from it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/serving_thread.hpp"
#include "bootstrap/session.hpp"
#include "transport/tcp/inbox.hpp"

namespace tutti::transport::tcp {

/// One thread, asleep in poll, accepts connections, lets them prove that they know the secret, and files them
/// in the inbox of their communicator. Strangers that stay silent or send garbage hold up nobody. Thread
/// safe.
class TcpListener {
 public:
  /// `address`: numeric, IPv4 or IPv6; the system chooses the port. Throws Error(system, invalid_argument).
  TcpListener(const std::string& address, const bootstrap::Secret& secret);
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// The inbox of a communicator, which all its transports share; open while somebody holds it. Connections
  /// to a communicator without an inbox are closed, so it must be open before its peers learn the port.
  std::shared_ptr<Inbox> open_inbox(std::uint64_t communicator);

 private:
  void file(int world_rank, std::uint64_t purpose, FileDescriptor connection);

  std::string address_;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::map<std::uint64_t, std::weak_ptr<Inbox>> inboxes_;
  ServingThread thread_;
};

}  // namespace tutti::transport::tcp
