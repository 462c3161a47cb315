/// \file
/// Connections through rdma_cm, for links that connect in no other way (iWARP). Queue pairs stay ours:
/// rdma_cm is only told their numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/verbs/devices.hpp"
#include "transport/verbs/status.hpp"
#include "transport/verbs/wire.hpp"

namespace tutti::transport::verbs {

/// One a device. Used by one thread at a time; nothing blocks.
class ConnectionManager {
 public:
  /// Whether this build has librdmacm, and this kernel rdma_cm. Else why not, in words.
  static std::string why_unavailable();

  /// Listens at an address of the device. Throws Error(system), Error(unsupported).
  ConnectionManager(Place place, const Gid& address);
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  /// Where peers connect to.
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] int event_fd() const;
  /// A peer that shows the token may connect to this queue pair, once.
  void expect(std::uint32_t queue_pair, std::uint64_t token);
  /// Connects a queue pair to one that expects it. Throws Error(system).
  void connect(std::uint32_t queue_pair, const Address& peer);
  /// Before a queue pair is destroyed.
  void forget(std::uint32_t queue_pair);

  struct Outcome {
    std::uint32_t queue_pair = 0;
    std::string failure;  ///< empty: it is connected
  };
  /// What has become of connections since the last call.
  std::vector<Outcome> advance();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti::transport::verbs
