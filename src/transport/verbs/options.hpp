/// \file
/// What a person may choose about RDMA; everything has a default.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::transport::verbs {

/// How the receiver learns that a message is there.
enum class Signal : std::uint8_t {
  automatic,  ///< `immediate`, but `separate` on InfiniBand above 8 KiB and `send` on iWARP
  immediate,  ///< the last write carries an immediate
  separate,   ///< plain writes, then an empty write with an immediate: data may be routed adaptively
  send,       ///< plain writes, then a send: for links without immediates
};

struct VerbsOptions {
  /// Devices to use, in the order of rails; empty: the fastest active one, nearest to this thread; "all": all
  /// active ones. TUTTI_VERBS_DEVICES, comma separated.
  std::vector<std::string> devices;
  int port = 0;           ///< 0: the first active one. TUTTI_VERBS_PORT
  int gid_index = -1;     ///< -1: chosen and proved by a message. TUTTI_VERBS_GID_INDEX
  int pkey_index = 0;     ///< of the port's table: the partition. TUTTI_VERBS_PKEY_INDEX
  int service_level = 0;  ///< 0 to 15. TUTTI_VERBS_SERVICE_LEVEL
  int traffic_class = 0;  ///< the whole byte, DSCP << 2. TUTTI_VERBS_TRAFFIC_CLASS
  int mtu = 0;            ///< path MTU, 256 to 4096; 0: what both ports have. TUTTI_VERBS_MTU
  int timeout =
      18;  ///< an unacknowledged packet is sent again after 4.096 us * 2^timeout. TUTTI_VERBS_TIMEOUT
  int retries = 7;  ///< so many times. TUTTI_VERBS_RETRIES
  /// Peers that stay connected however idle; beyond them, the queue pairs of the least recently used are
  /// closed. The default: from as many on, others change to connections that cards keep no state of.
  /// TUTTI_VERBS_CONNECTED_PEERS
  int connected_peers = 256;
  std::chrono::milliseconds idle_after{1000};  ///< not used for so long: idle
  int max_inline = 220;         ///< bytes copied into the work request itself, where the device can
  bool shared_receives = true;  ///< one receive queue for all peers, where the device has one
  Signal signal = Signal::automatic;
  std::size_t message_bytes =
      128 << 10;                       ///< longest message; eight of them are kept registered a FIFO in use
  std::size_t stripe_from = 64 << 10;  ///< shorter messages travel on one rail
  bool prove_gid = true;               ///< send a message to ourselves before trusting a GID

  /// The defaults, overridden by the variables named above. Throws Error(invalid_argument).
  static VerbsOptions from_environment();
};

/// How long a sender tries before it gives a peer up, in seconds: 4.096 us * 2^timeout * (retries + 1).
double retry_budget(int timeout, int retries);

/// Soft-RoCE takes 7 retries for infinitely many, so it gets 6.
int effective_retries(int retries, std::uint32_t vendor);

}  // namespace tutti::transport::verbs
