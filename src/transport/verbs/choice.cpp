#include "transport/verbs/choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include <tutti/error.hpp>

#include "transport/verbs/wire.hpp"

namespace tutti::transport::verbs {

namespace {

/// Above it, InfiniBand switches that route adaptively do so for plain writes only.
constexpr std::size_t separate_from = 8192;

/// The attributes of queue pairs have a byte for the index: a larger one would name another address.
constexpr int most_gid_index = 255;

const Port* usable_port(const Device& device, int wanted) {
  const auto found = std::ranges::find_if(
      device.ports, [&](const Port& port) { return wanted == 0 ? port.active : port.number == wanted; });
  return found == device.ports.end() ? nullptr : &*found;
}

std::string what_there_is(const std::vector<Device>& devices) {
  if (devices.empty()) return "this host has no RDMA device";
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (const auto& device : devices) names.push_back(device.name);
  return fmt::format("there are: {}", fmt::join(names, ", "));
}

/// Those that have no active port, with the reason where it is another one.
std::string idle_devices(const std::vector<Device>& devices) {
  std::vector<std::string> all;
  all.reserve(devices.size());
  for (const auto& device : devices)
    all.push_back(device.unusable.empty() ? device.name
                                          : fmt::format("{} (which {})", device.name, device.unusable));
  return fmt::format("{}", fmt::join(all, ", "));
}

std::vector<ChosenPort> choose_named(const std::vector<Device>& devices, const VerbsOptions& options) {
  std::vector<ChosenPort> chosen;
  for (const auto& wanted : options.devices) {
    const auto device = std::ranges::find(devices, wanted, &Device::name);
    if (device == devices.end())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("RDMA device \"{}\" of TUTTI_VERBS_DEVICES does not exist; {}", wanted,
                              what_there_is(devices)));
    if (!device->unusable.empty())
      throw Error(ErrorCode::invalid_argument, fmt::format("RDMA device {} {}", wanted, device->unusable));
    const Port* port = usable_port(*device, options.port);
    if (port == nullptr || !port->active)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("RDMA device {} has no active port{}; ibv_devinfo shows the state of its ports",
                              wanted, options.port == 0 ? "" : fmt::format(" {}", options.port)));
    chosen.push_back({*device, *port});
  }
  return chosen;
}

/// One that is down may come up; one that no device has is a mistake.
void check_number(const std::vector<Device>& devices, int wanted) {
  std::vector<std::string> ports;
  for (const Device& device : devices)
    for (const Port& port : device.ports) {
      if (wanted == 0 || port.number == wanted) return;
      ports.push_back(fmt::format("{} port {}", device.name, port.number));
    }
  if (ports.empty()) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("no RDMA device has a port {}, which TUTTI_VERBS_PORT asks for; there are: {}",
                          wanted, fmt::join(ports, ", ")));
}

std::vector<ChosenPort> as_many_as_are_used(std::vector<ChosenPort> ports) {
  if (ports.size() > max_rails) ports.resize(max_rails);
  return ports;
}

int gid_class(const Gid& gid) {
  return (gid.roce_v2 ? 0 : 3) + (gid.is_ipv4() ? 0 : gid.is_link_local() ? 2 : 1);
}

std::string gid_kind(const Gid& gid) {
  return fmt::format("RoCE v{} {} address", gid.roce_v2 ? 2 : 1,
                     gid.is_ipv4()         ? "IPv4"
                     : gid.is_link_local() ? "link-local IPv6"
                                           : "global IPv6");
}

}  // namespace

std::vector<ChosenPort> choose_ports(const std::vector<Device>& devices, const VerbsOptions& options,
                                     int near_node, std::string& why_none) {
  const bool all = options.devices == std::vector<std::string>{"all"};
  if (!options.devices.empty() && !all) return as_many_as_are_used(choose_named(devices, options));
  check_number(devices, options.port);
  std::vector<ChosenPort> chosen;
  for (const auto& device : devices)
    if (const Port* port = usable_port(device, options.port); port != nullptr && port->active)
      chosen.push_back({device, *port});
  if (devices.empty())
    why_none = "no RDMA device";
  else if (chosen.empty())
    why_none = fmt::format("no active port{} on {}",
                           options.port == 0 ? "" : fmt::format(" {} (TUTTI_VERBS_PORT)", options.port),
                           idle_devices(devices));
  if (all) return as_many_as_are_used(std::move(chosen));
  std::ranges::stable_sort(chosen, {}, [&](const ChosenPort& one) {
    return std::pair(-one.port.gigabits, one.device.numa_node == near_node ? 0 : 1);
  });
  if (chosen.size() > 1) chosen.resize(1);
  return chosen;
}

std::vector<ChosenGid> gid_candidates(const Port& port, int forced_index) {
  std::vector<ChosenGid> candidates;
  for (const auto& gid : port.gids) {
    if (gid.index > most_gid_index || (forced_index >= 0 && gid.index != forced_index)) continue;
    candidates.push_back({gid, forced_index >= 0 ? "it was asked for"
                               : port.layer == LinkLayer::roce
                                   ? "it is the first " + gid_kind(gid) + " that works"
                                   : "it is the port's first"});
  }
  if (port.layer == LinkLayer::roce)
    std::ranges::stable_sort(candidates, {}, [](const ChosenGid& one) { return gid_class(one.gid); });
  return candidates;
}

bool share_partition(std::uint16_t one, std::uint16_t other) {
  constexpr unsigned full_member = 0x8000;
  if (one == 0 || other == 0) return true;
  const unsigned a = one, b = other;
  return ((a ^ b) & ~full_member) == 0 && ((a | b) & full_member) != 0;
}

Signal signal_for(Signal wanted, LinkLayer layer, std::size_t bytes) {
  if (wanted != Signal::automatic) return wanted;
  if (layer == LinkLayer::iwarp) return Signal::send;
  return layer == LinkLayer::infiniband && bytes > separate_from ? Signal::separate : Signal::immediate;
}

}  // namespace tutti::transport::verbs
