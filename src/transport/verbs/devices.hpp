/// \file
/// The RDMA devices of this host, as plain data.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transport/verbs/verbs.hpp"

namespace tutti::transport::verbs {

enum class LinkLayer : std::uint8_t { infiniband, roce, iwarp };
std::string_view name(LinkLayer layer);

/// An address of a port; of an iWARP port an IP address of its interface.
struct Gid {
  std::array<std::uint8_t, 16> raw{};
  int index = 0;
  bool roce_v2 = false;
  [[nodiscard]] bool is_ipv4() const;
  [[nodiscard]] bool is_link_local() const;
};
/// "10.8.0.1", "fe80::1".
std::string to_string(const Gid& gid);

struct Port {
  int number = 1;
  LinkLayer layer = LinkLayer::infiniband;
  bool active = false;
  bool needs_global_route = false;  ///< packets from it and to it must carry addresses (a GRH)
  double gigabits = 0;              ///< per second
  int mtu = 0;                      ///< active one, bytes
  std::uint16_t lid = 0;
  std::uint32_t longest_message = 0;
  std::vector<Gid> gids;
};

struct Device {
  std::string name;
  std::uint32_t vendor = 0;
  std::string pci_path;  ///< below /sys/devices; empty for software devices
  int numa_node = -1;    ///< -1: unknown
  std::string unusable;  ///< "cannot be opened: ..."; empty: it can
  std::vector<Port> ports;
};

/// Bytes of an ibv_mtu, and the largest ibv_mtu of at most so many bytes.
int bytes_of(ibv_mtu mtu);
ibv_mtu mtu_of(int bytes);

/// Where the kernel lists RDMA devices.
inline constexpr const char* system_devices = "/sys/class/infiniband";
/// All devices, in the system's order; those that cannot be opened say why and have no ports. `sysfs`: where
/// the kernel lists them. `wanted`: only these are opened, the others have a name and nothing else; empty:
/// all.
std::vector<Device> discover(Verbs& verbs, const std::string& sysfs = system_devices,
                             const std::vector<std::string>& wanted = {});

}  // namespace tutti::transport::verbs
