/// \file
/// The lines to ranks on other hosts: the network, and where messages lie on the way.
///
/// GPUDirect RDMA: where the adapters of both ends reach device memory, a kernel's messages are read from
/// there and written there. Flags, sizes and numbers stay in page-locked host memory in any case: the thread
/// that carries them (proxy.hpp) sees them there without asking the device, and tells a kernel of a message
/// only when the device sees its bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/api.hpp"
#include "gpu/device/mailbox.hpp"
#include "gpu/line.hpp"
#include "gpu/resources.hpp"
#include "gpu/setting.hpp"
#include "gpu/ways.hpp"

namespace tutti::gpu {

class NetworkLines {
 public:
  /// `lines`: of this rank, by host memory. Collective, on the device. What both ends of a pair say that they
  /// can is proved by a pattern, which goes all the way from a kernel to a kernel; where it does not arrive,
  /// the pair stays with host memory. Throws Error(system, timeout, peer_lost).
  NetworkLines(std::shared_ptr<Api> api, const Setting& setting, const device::Mailbox& layout,
               std::vector<Line> lines);

  [[nodiscard]] const std::vector<Line>& lines() const { return lines_; }
  [[nodiscard]] Network& network() const { return *network_; }
  /// Adapters' writes into the device's memory are flushed before a kernel is told of them.
  [[nodiscard]] bool flushes() const { return writes_ == NetworkWrites::flushed; }
  /// A line for every peer; empty without one.
  [[nodiscard]] std::string description() const;
  /// Device memory is not freed: kernels and adapters may still use it.
  void abandon() noexcept;

 private:
  [[nodiscard]] std::size_t bytes_of_slots() const;
  void use_device_memory(std::size_t i);
  void use_host_memory(std::size_t i);
  void propose();
  void register_all();
  void agree_on_all();
  bool prove();
  void make_network_anew();

  std::shared_ptr<Api> api_;
  const Setting& setting_;
  const device::Mailbox layout_;
  const std::vector<Line> by_host_;
  std::vector<Line> lines_;
  NetworkWrites writes_ = NetworkWrites::never;
  std::vector<Proposal> proposals_;  ///< by rank
  bool some_direct_ = false;         ///< any pair of ranks
  // As lines_; nullptr: none. In this order: what is registered goes before its network, and memory goes
  // last.
  std::vector<DeviceMemory> memory_;
  std::unique_ptr<Network> network_;
  std::vector<std::unique_ptr<transport::RegisteredDeviceMemory>> registered_;
};

}  // namespace tutti::gpu
