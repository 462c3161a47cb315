#include "doctor/rdma.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace tutti::doctor {

namespace {

nlohmann::json data_of(const RdmaPort& port) {
  nlohmann::json data{{"device", port.device},     {"port", port.number},
                      {"layer", port.layer},       {"active", port.active},
                      {"gigabits", port.gigabits}, {"mtu", port.mtu},
                      {"lid", port.lid},           {"numa_node", port.numa_node},
                      {"pci_path", port.pci_path}, {"gids", nlohmann::json::array()}};
  for (const auto& gid : port.gids)
    data["gids"].push_back({{"index", gid.index}, {"address", gid.address}, {"type", gid.type}});
  return data;
}

std::string in_words(const RdmaPort& port) {
  std::string text = fmt::format("{} port {}: {}, {:g} Gb/s, MTU {}, {}", port.device, port.number,
                                 port.layer, port.gigabits, port.mtu,
                                 port.active         ? "active"
                                 : port.initializing ? "initializing"
                                                     : "down");
  if (port.numa_node >= 0) text += fmt::format(", NUMA node {}", port.numa_node);
  if (const auto slash = port.pci_path.rfind('/'); slash != std::string::npos)
    text += ", PCI " + port.pci_path.substr(slash + 1);
  constexpr std::size_t shown = 4;
  for (std::size_t i = 0; i < std::min(port.gids.size(), shown); ++i)
    text += fmt::format(", GID {} {}{}{}", port.gids[i].index, port.gids[i].address,
                        port.gids[i].type.empty() ? "" : " ", port.gids[i].type);
  return port.gids.size() > shown ? text + fmt::format(", {} more GIDs", port.gids.size() - shown) : text;
}

/// What is wrong with a port that is linked, and the remedy; level ok when nothing is.
Finding examine_linked(const RdmaPort& port, const std::string& why_no_iwarp) {
  const auto routable = [](const RdmaGid& gid) { return gid.type == "RoCE v2" && !gid.link_local; };
  if (port.layer == "iWARP")
    return why_no_iwarp.empty() ? Finding{}
                                : Finding{.level = Level::note, .what = "iWARP is not used: " + why_no_iwarp};
  if (port.layer == "InfiniBand")
    return port.active && port.lid != 0
               ? Finding{}
               : Finding{.level = Level::warning,
                         .what = "no LID: no subnet manager has seen this port",
                         .remedy = "start a subnet manager: opensm, or the switch's own"};
  if (std::ranges::none_of(port.gids, routable))
    return {.level = Level::warning,
            .what = "no RoCE v2 address that is routable",
            .remedy = "give the network interface of this device an IPv4 address"};
  if (port.mtu < 4096)
    return {
        .level = Level::note,
        .what = "a larger MTU costs fewer packets",
        .remedy =
            "ip link set (its network interface) mtu 9000, where all switches carry it: RDMA then uses 4096"};
  return {};
}

Finding examine_port(const RdmaPort& port, const std::string& why_no_iwarp) {
  Finding finding;
  if (port.active || (port.initializing && port.layer == "InfiniBand"))
    finding = examine_linked(port, why_no_iwarp);
  else
    finding = {.level = Level::note,
               .remedy = "plug in the cable, or \"ip link set (its network interface) up\""};
  finding.area = "rdma";
  finding.what = in_words(port) + (finding.what.empty() ? "" : "; ") + finding.what;
  finding.data = data_of(port);
  return finding;
}

Finding examine_choice(const RdmaFacts& facts) {
  if (!facts.choice.empty())
    return {.area = "rdma", .what = "tutti uses " + facts.choice, .data = {{"choice", facts.choice}}};
  if (facts.refused)
    return {
        .area = "rdma",
        .level = Level::error,
        .what = "TUTTI_VERBS_* ask for what cannot be: " + facts.why_none,
        .remedy = "set them otherwise, or not at all: until then ranks of several machines fail with this"};
  return {.area = "rdma",
          .level = Level::warning,
          .what = "tutti uses none of these ports: " + facts.why_none,
          .remedy = "until then machines reach each other by TCP"};
}

std::vector<std::string> unopened(const RdmaFacts& facts) {
  std::vector<std::string> devices;
  std::ranges::copy_if(facts.kernel, std::back_inserter(devices), [&](const std::string& device) {
    return std::ranges::find(facts.ports, device, &RdmaPort::device) == facts.ports.end();
  });
  return devices;
}

/// Where others can be opened, that may be as it should be: a container is given some.
Finding examine_unopened(const RdmaFacts& facts, const std::vector<std::string>& devices) {
  Finding finding{.area = "rdma", .level = facts.ports.empty() ? Level::warning : Level::note};
  finding.what = fmt::format("the kernel has {} RDMA device{}, ", facts.kernel.size(),
                             facts.kernel.size() == 1 ? "" : "s");
  finding.what += facts.ports.empty() ? "none of which can be opened"
                                      : fmt::format("{} of which cannot be opened: {}", devices.size(),
                                                    fmt::join(devices, ", "));
  finding.data = {{"unopened", devices}};
  if (!facts.closed.empty())
    finding.remedy = fmt::format("let this user read and write {} (chmod, udev rule, group)",
                                 fmt::join(facts.closed, " and "));
  else if (facts.nodes.size() > facts.kernel.size() - devices.size())
    finding.remedy = "install the user-space drivers: apt install ibverbs-providers";
  else
    finding.remedy = "modprobe ib_uverbs; in containers --device=/dev/infiniband";
  return finding;
}

}  // namespace

RdmaFacts read_rdma(const Root& root) {
  RdmaFacts facts;
  facts.kernel = root.names("/sys/class/infiniband");
  for (const auto& name : root.names("/dev/infiniband")) {
    const std::string node = "/dev/infiniband/" + name;
    if (!name.starts_with("uverbs")) continue;
    facts.nodes.push_back(node);
    if (!root.readable_and_writable(node)) facts.closed.push_back(node);
  }
  read_devices(facts);
  for (auto& port : facts.ports) {
    const auto state =
        root.text(fmt::format("/sys/class/infiniband/{}/ports/{}/state", port.device, port.number));
    port.initializing =
        state && (state->starts_with("2") || state->starts_with("3"));  // "2: INIT", "3: ARMED"
  }
  return facts;
}

Findings examine(const RdmaFacts& facts) {
  Findings findings;
  if (facts.kernel.empty())
    findings.push_back(
        {.area = "rdma",
         .level = Level::note,
         .what = std::string("no RDMA device") + (facts.refused ? "" : ": machines reach each other by TCP"),
         .data = {{"devices", 0}}});
  if (!facts.built)
    findings.push_back({.area = "rdma",
                        .level = facts.kernel.empty() ? Level::note : Level::warning,
                        .what = "this tutti is built without RDMA",
                        .remedy = "apt install libibverbs-dev, then build again",
                        .data = {{"built", false}}});
  if (!facts.built) return findings;
  for (const auto& port : facts.ports) findings.push_back(examine_port(port, facts.why_no_iwarp));
  if (const auto devices = unopened(facts); !devices.empty())
    findings.push_back(examine_unopened(facts, devices));
  if (!facts.ports.empty() || facts.refused) findings.push_back(examine_choice(facts));
  return findings;
}

}  // namespace tutti::doctor
