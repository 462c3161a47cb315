#include "topology/builtin.hpp"

#include <fmt/format.h>

#include <array>

#include "topology/assemble.hpp"
#include "topology/rates.hpp"

namespace tutti::topology {

namespace {

const PcieLink gen3 = pcie_link(8, 16);
const PcieLink gen4 = pcie_link(16, 16);
const PcieLink gen5 = pcie_link(32, 16);

Node intel(int package, const char* label, int model) {
  return {
      .label = label,
      .package = package,
      .details = {
          {"arch", "x86_64"}, {"vendor", "GenuineIntel"}, {"family", "6"}, {"model", std::to_string(model)}}};
}

Node amd(int package, const char* label, int family, int model) {
  return {.label = label,
          .package = package,
          .details = {{"arch", "x86_64"},
                      {"vendor", "AuthenticAMD"},
                      {"family", std::to_string(family)},
                      {"model", std::to_string(model)}}};
}

/// Addresses as real machines have them differ from one to the next; these only have to differ from each
/// other.
std::string address(int bus) { return fmt::format("0000:{:02x}:00.0", bus); }

Node gpu(const char* label, int compute_capability, int bus) {
  return {.kind = NodeKind::gpu,
          .label = label,
          .pci = address(bus),
          .rdma = true,
          .details = {{"sm", std::to_string(compute_capability)}}};
}

NodeId add_bridge(Machine& machine, NodeId cpu, PcieLink link, int bus) {
  return add_device(machine, cpu, {.kind = NodeKind::bridge, .pci = address(bus)}, link);
}

/// An adapter of so many ports, "mlx5_0", "mlx5_1", ... over the machine.
void add_nic(Machine& machine, NodeId parent, const char* label, PcieLink link, int bus, double gigabits,
             int ports = 1) {
  const NodeId nic =
      add_device(machine, parent, {.kind = NodeKind::nic, .label = label, .pci = address(bus)}, link);
  for (int i = 0; i < ports; ++i) {
    const auto number = machine.count(NodeKind::port);
    add_port(machine, nic, {.label = fmt::format("mlx5_{}", number), .rdma = true}, gigabits);
  }
}

/// Eight H100 with 18 NVLinks each to four NVSwitches; each below a PCIe switch with an adapter of its own.
Machine dgx_h100() {
  Machine machine;
  const std::array sockets = {add_cpu(machine, intel(0, "Xeon Platinum 8480C", 143)),
                              add_cpu(machine, intel(1, "Xeon Platinum 8480C", 143))};
  const NodeId nvswitch = the_nvswitch(machine);
  machine.node(nvswitch).details["switches"] = "4";
  for (int i = 0; i < 8; ++i) {
    const int bus = 0x10 + 0x10 * i;
    const NodeId bridge = add_bridge(machine, sockets[i < 4 ? 0 : 1], gen5, bus);
    const NodeId device = add_device(machine, bridge, gpu("NVIDIA H100 SXM", 90, bus + 1), gen5);
    add_peer_links(machine, device, nvswitch, LinkKind::nvlink, 18, nvlink_bandwidth(90));
    add_nic(machine, bridge, "ConnectX-7", gen5, bus + 2, 400);
  }
  connect_cpus(machine);
  return machine;
}

/// Eight A100 with 12 NVLinks each to six NVSwitches; two GPUs and two adapters below each of four PCIe
/// switches, which hang on NUMA domains 3, 1, 7 and 5 of eight.
Machine dgx_a100() {
  Machine machine;
  std::array<NodeId, 8> domains{};
  for (int i = 0; i < 8; ++i)
    domains.at(static_cast<std::size_t>(i)) = add_cpu(machine, amd(i / 4, "EPYC 7742", 23, 49));
  const NodeId nvswitch = the_nvswitch(machine);
  machine.node(nvswitch).details["switches"] = "6";
  int bus = 0x10;
  for (const std::size_t domain : {3U, 1U, 7U, 5U}) {
    const NodeId bridge = add_bridge(machine, domains.at(domain), gen4, bus);
    for (int i = 0; i < 2; ++i) {
      const NodeId device = add_device(machine, bridge, gpu("NVIDIA A100 SXM", 80, bus + 1 + i), gen4);
      add_peer_links(machine, device, nvswitch, LinkKind::nvlink, 12, nvlink_bandwidth(80));
    }
    for (int i = 0; i < 2; ++i) add_nic(machine, bridge, "ConnectX-6", gen4, bus + 3 + i, 200);
    bus += 0x10;
  }
  connect_cpus(machine);
  return machine;
}

/// One of the eighteen trays of a rack: two Grace processors, each with two GPUs over NVLink-C2C and two
/// adapters over PCIe; 18 NVLinks a GPU to the rack's switches.
Machine nvl72() {
  Machine machine;
  machine.nvlink_machines = 18;
  const Node grace = {.label = "Grace", .details = {{"arch", "arm64"}, {"vendor", "ARM"}}};
  std::array<NodeId, 2> sockets{};
  for (int i = 0; i < 2; ++i) {
    Node socket = grace;
    socket.package = i;
    sockets.at(static_cast<std::size_t>(i)) = add_cpu(machine, socket);
  }
  const NodeId nvswitch = the_nvswitch(machine);
  machine.node(nvswitch).details["switches"] = "18";
  for (int i = 0; i < 4; ++i) {
    const NodeId device = machine.add(gpu("NVIDIA B200", 100, 0x11 + 0x10 * i));
    add_peer_links(machine, sockets[i < 2 ? 0 : 1], device, LinkKind::c2c, 1, c2c_bandwidth);
    add_peer_links(machine, device, nvswitch, LinkKind::nvlink, 18, nvlink_bandwidth(100));
  }
  for (int i = 0; i < 4; ++i)
    add_nic(machine, sockets[i < 2 ? 0 : 1], "ConnectX-7", gen5, 0x12 + 0x10 * i, 400);
  connect_cpus(machine);
  return machine;
}

/// Four GPUs without NVLink, two a socket, and one adapter for all of them.
Machine pcie_box() {
  Machine machine;
  const std::array sockets = {add_cpu(machine, intel(0, "Xeon Gold 6338", 106)),
                              add_cpu(machine, intel(1, "Xeon Gold 6338", 106))};
  for (int i = 0; i < 4; ++i)
    add_device(machine, sockets[i < 2 ? 0 : 1], gpu("NVIDIA L40S", 89, 0x11 + 0x10 * i), gen4);
  add_nic(machine, sockets[0], "ConnectX-6", gen4, 0x60, 100);
  connect_cpus(machine);
  return machine;
}

/// What grew over the years: three GPUs on one socket, two of them below a switch and joined by an NVLink
/// bridge; one on the other, with a slower adapter; an adapter with two ports next to the pair.
Machine uneven_box() {
  Machine machine;
  const std::array sockets = {add_cpu(machine, amd(0, "EPYC 7313", 25, 1)),
                              add_cpu(machine, amd(1, "EPYC 7313", 25, 1))};
  const NodeId bridge = add_bridge(machine, sockets[0], gen4, 0x10);
  const NodeId first = add_device(machine, bridge, gpu("NVIDIA A100 PCIe", 80, 0x11), gen4);
  const NodeId second = add_device(machine, bridge, gpu("NVIDIA A100 PCIe", 80, 0x12), gen4);
  add_peer_links(machine, first, second, LinkKind::nvlink, 12, nvlink_bandwidth(80));
  add_nic(machine, bridge, "ConnectX-6", gen4, 0x13, 100, 2);
  add_device(machine, sockets[0], gpu("NVIDIA A10", 86, 0x21), gen4);
  add_device(machine, sockets[1], gpu("NVIDIA A10", 86, 0x81), gen4);
  add_nic(machine, sockets[1], "ConnectX-4", gen3, 0x91, 25);
  connect_cpus(machine);
  return machine;
}

struct Builtin {
  std::string_view name;
  Machine (*make)();
};
constexpr std::array known_machines = {Builtin{"dgx-h100", dgx_h100}, Builtin{"dgx-a100", dgx_a100},
                                       Builtin{"nvl72", nvl72}, Builtin{"pcie-box", pcie_box},
                                       Builtin{"uneven-box", uneven_box}};

}  // namespace

std::vector<std::string> builtin_names() {
  std::vector<std::string> names;
  names.reserve(known_machines.size());
  for (const Builtin& one : known_machines) names.emplace_back(one.name);
  return names;
}

std::optional<Machine> builtin(std::string_view name) {
  for (const Builtin& one : known_machines) {
    if (one.name != name) continue;
    Machine machine = one.make();
    machine.name = name;
    return machine;
  }
  return std::nullopt;
}

}  // namespace tutti::topology
