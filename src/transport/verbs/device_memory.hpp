/// \file
/// Memory of GPUs, registered with RDMA devices (GPUDirect RDMA). Its pages are found by a dma-buf (Linux
/// 5.12, rdma-core's ibv_reg_dmabuf_mr), or by nvidia-peermem, a kernel module that makes ibv_reg_mr take
/// addresses of device memory. NVIDIA prefers them in this order:
/// https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "transport/device_memory.hpp"
#include "transport/verbs/memory.hpp"
#include "transport/verbs/wire.hpp"

namespace tutti::transport::verbs {

/// What is in a RegisteredAddress.
struct PlacedAddress {
  std::uint64_t begin = 0;
  std::array<std::uint32_t, max_rails> keys{};  ///< by rail
};
static_assert(sizeof(PlacedAddress) <= sizeof(RegisteredAddress));
PlacedAddress unpack(const RegisteredAddress& address);

class VerbsDeviceMemory final : public RegisteredDeviceMemory {
 public:
  /// With all rails. Throws Error(unsupported): what each way met.
  VerbsDeviceMemory(Verbs& verbs, const Domains& domains, const DeviceMemory& memory);
  [[nodiscard]] RegisteredAddress address() const override;
  [[nodiscard]] std::string means() const override { return means_; }
  [[nodiscard]] const std::shared_ptr<const Region>& region() const { return region_; }

 private:
  std::shared_ptr<const Region> region_;
  std::size_t rails_;
  std::string means_;
};

}  // namespace tutti::transport::verbs
