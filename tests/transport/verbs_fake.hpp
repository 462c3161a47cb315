/// \file
/// RDMA without a device: queue pairs, memory and completions as libibverbs has them, within one process.
/// Work requests run when they are posted. It checks what hardware checks (keys, bounds, access, states, room
/// in queues) and so fails where hardware would.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/verbs/devices.hpp"
#include "transport/verbs/verbs.hpp"

namespace tutti::transport::testing {

/// What a fake device can do.
struct FakeDevice {
  std::string name = "fake0";
  std::uint32_t vendor = 0x02c9;
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  int link_layer = IBV_LINK_LAYER_ETHERNET;
  bool active = true;
  bool needs_global_route = false;
  ibv_mtu mtu = IBV_MTU_4096;
  std::uint32_t longest_message = 1 << 30;
  std::uint32_t max_inline = 256;
  int max_srq = 1024;
  int max_cqe = 1 << 20;
  bool dma_bufs = true;  ///< any open descriptor is taken for one
  std::vector<verbs::Gid> gids;
  std::vector<std::uint16_t> partitions{0xffff, 0x8001, 0x8002};  ///< the port's table of keys
};
/// A RoCE v2 address, by its IPv4 text.
verbs::Gid ipv4_gid(int index, const std::string& address);
/// Devices fake0, fake1, ..., with address 10.9.0.1, ....
std::vector<FakeDevice> fake_devices(int count);

/// Counted by the fabric.
struct FakeCounters {
  std::uint64_t receiver_not_ready = 0;  ///< an immediate met an empty receive queue
  std::uint64_t doorbells = 0;           ///< calls of post_send
  std::uint64_t requests = 0;            ///< work requests in them
  std::uint64_t signalled = 0;
  std::uint64_t registered = 0;  ///< regions that exist
  std::uint64_t pairs = 0;       ///< queue pairs that exist
};

std::shared_ptr<verbs::Verbs> fake_verbs(std::vector<FakeDevice> devices);
FakeCounters counters_of(verbs::Verbs& fake);
/// From now on packets from and to the device get lost: work requests fail with RETRY_EXC.
void cut_off(verbs::Verbs& fake, const std::string& device);
/// The device is gone, without a word: its descriptors report an error for good, and nothing completes.
void take_away(verbs::Verbs& fake, const std::string& name);
/// Raises an asynchronous event at all users of the device.
void raise_event(verbs::Verbs& fake, const std::string& device, ibv_event_type event);
/// Raises one of a queue pair. They are numbered in the order in which they were made, of all that exist.
void raise_pair_event(verbs::Verbs& fake, std::size_t pair, ibv_event_type event);

}  // namespace tutti::transport::testing
