#include "transport/verbs/devices.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "topology/interface.hpp"
#include "transport/verbs/status.hpp"

namespace tutti::transport::verbs {

namespace {

/// Gb/s of one lane, by ibv_port_attr::active_speed.
double lane_speed(int code) {
  switch (code) {
    case 1:
      return 2.5;
    case 2:
      return 5;
    case 4:
    case 8:
      return 10;
    case 16:
      return 14;
    case 32:
      return 25;
    case 64:
      return 50;
    case 128:
      return 100;
    default:
      return 0;
  }
}

/// Lanes, by ibv_port_attr::active_width.
int lanes(int code) {
  switch (code) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

/// The IP addresses of the network interface with this hardware address: by them iWARP connects. IPv4 first;
/// no link-local ones, which mean nothing without an interface.
std::vector<Gid> addresses_of(const Gid& hardware) {
  std::vector<Gid> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(list, &::freeifaddrs);
  std::string interface;
  for (const auto* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_PACKET) continue;
    const auto* link = reinterpret_cast<const sockaddr_ll*>(one->ifa_addr);
    if (std::equal(link->sll_addr, link->sll_addr + ETH_ALEN, hardware.raw.begin()))
      interface = one->ifa_name;
  }
  for (const int family : {AF_INET, AF_INET6})
    for (const auto* one = list; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family ||
          topology::device_name(one->ifa_name) != interface)
        continue;
      Gid gid;
      if (family == AF_INET) {
        gid.raw[10] = gid.raw[11] = 0xff;
        std::memcpy(&gid.raw[12], &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, 4);
      } else {
        std::memcpy(gid.raw.data(), &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr, 16);
      }
      gid.index = static_cast<int>(found.size());
      if (!gid.is_link_local()) found.push_back(gid);
    }
  return found;
}

Port describe_port(Verbs& verbs, ibv_context* context, int number, const std::vector<ibv_gid_entry>& gids) {
  Port port;
  port.number = number;
  ibv_port_attr attributes{};
  if (verbs.query_port(context, number, &attributes) != 0) return port;
  port.layer = verbs.transport_type(context) == IBV_TRANSPORT_IWARP ? LinkLayer::iwarp
               : attributes.link_layer == IBV_LINK_LAYER_ETHERNET   ? LinkLayer::roce
                                                                    : LinkLayer::infiniband;
  port.active = attributes.state == IBV_PORT_ACTIVE;
  port.needs_global_route = (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;
  port.gigabits = lane_speed(attributes.active_speed) * lanes(attributes.active_width);
  port.mtu = bytes_of(attributes.active_mtu);
  port.lid = attributes.lid;
  // Not all drivers say: mana_ib left it 0 for years. Some adapters say this, and none is known that says
  // less.
  constexpr std::uint32_t if_untold = 1U << 20U;
  port.longest_message = attributes.max_msg_sz > 0 ? attributes.max_msg_sz : if_untold;
  for (const auto& entry : gids) {
    if (static_cast<int>(entry.port_num) != number) continue;
    Gid gid;
    std::memcpy(gid.raw.data(), entry.gid.raw, gid.raw.size());
    gid.index = static_cast<int>(entry.gid_index);
    gid.roce_v2 = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
    port.gids.push_back(gid);
  }
  // What such a port calls its GID is the hardware address of its interface.
  if (port.layer == LinkLayer::iwarp && !port.gids.empty()) port.gids = addresses_of(port.gids.front());
  return port;
}

/// Gb/s as the kernel says; 0: it does not. libibverbs has no code for 200 a lane (XDR), and is told of 100.
double rate_of(const std::string& sysfs, const std::string& device, int port) {
  double gigabits = 0;
  std::ifstream(fmt::format("{}/{}/ports/{}/rate", sysfs, device, port)) >> gigabits;
  return gigabits;
}

void locate(Device& device, const std::string& sysfs) {
  std::error_code none;
  const auto path = std::filesystem::canonical(sysfs + "/" + device.name + "/device", none);
  if (none) return;
  device.pci_path = path.string();
  std::ifstream(path / "numa_node") >> device.numa_node;
}

}  // namespace

std::string_view name(LinkLayer layer) {
  switch (layer) {
    case LinkLayer::infiniband:
      return "InfiniBand";
    case LinkLayer::roce:
      return "RoCE";
    case LinkLayer::iwarp:
      return "iWARP";
  }
  return "?";
}

bool Gid::is_ipv4() const {
  constexpr std::array<std::uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(mapped.begin(), mapped.end(), raw.begin());
}

bool Gid::is_link_local() const { return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80; }

std::string to_string(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (gid.is_ipv4())
    ::inet_ntop(AF_INET, gid.raw.data() + 12, text.data(), text.size());
  else
    ::inet_ntop(AF_INET6, gid.raw.data(), text.data(), text.size());
  return text.data();
}

int bytes_of(ibv_mtu mtu) { return 128 << static_cast<int>(mtu); }

ibv_mtu mtu_of(int bytes) {
  int code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && bytes_of(static_cast<ibv_mtu>(code + 1)) <= bytes) ++code;
  return static_cast<ibv_mtu>(code);
}

std::vector<Device> discover(Verbs& verbs, const std::string& sysfs, const std::vector<std::string>& wanted) {
  std::vector<Device> devices;
  for (const auto& name : verbs.device_names()) {
    Device& device = devices.emplace_back();
    device.name = name;
    if (!wanted.empty() && std::ranges::find(wanted, name) == wanted.end()) continue;
    const Context context(verbs.open_device(name), {&verbs});
    if (!context) {
      device.unusable = "cannot be opened: " + call_text(errno);
      continue;
    }
    ibv_device_attr attributes{};
    if (const int code = verbs.query_device(context.get(), &attributes); code != 0) {
      device.unusable = "cannot be queried: " + call_text(errno_of(code));
      continue;
    }
    device.vendor = attributes.vendor_id;
    locate(device, sysfs);
    const auto gids = verbs.query_gid_table(context.get());
    for (int number = 1; number <= attributes.phys_port_cnt; ++number) {
      Port& port = device.ports.emplace_back(describe_port(verbs, context.get(), number, gids));
      if (const double told = rate_of(sysfs, name, number); told > 0) port.gigabits = told;
    }
  }
  return devices;
}

}  // namespace tutti::transport::verbs
