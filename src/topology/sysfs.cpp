#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/names_in.hpp"
#include "topology/assemble.hpp"
#include "topology/discover.hpp"
#include "topology/rates.hpp"

namespace tutti::topology {

namespace {

namespace fs = std::filesystem;

std::string line(const std::string& file) {
  std::string text;
  std::getline(std::ifstream(file) >> std::ws, text);
  return text;
}

/// The number a file begins with; 0 where there is none.
double number(const std::string& file) {
  const std::string text = line(file);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string entry_of(const std::string& root, const Node& port) {
  if (!port.rdma) return root + "/sys/class/net/" + port.label;
  return root + "/sys/class/infiniband/" + port.label + "/ports/" + detail(port, "port", "1");
}

/// Gbit/s; 0: the system does not say.
double gigabits(const std::string& root, const Node& port) {
  const std::string entry = entry_of(root, port);
  return port.rdma ? number(entry + "/rate") : std::max(0.0, number(entry + "/speed")) / 1000;
}

/// Whether the system says so: a port without a cable has a rate as well.
bool is_down(const std::string& root, const Node& port) {
  const std::string state = line(entry_of(root, port) + (port.rdma ? "/state" : "/operstate"));
  if (state.empty() || state == "unknown") return false;  // not all drivers tell
  return !state.starts_with(port.rdma ? "4" : "up");      // "4: ACTIVE"
}

bool has_port(const Machine& machine, const std::string& label) {
  return std::ranges::any_of(
      machine.nodes, [&](const Node& node) { return node.kind == NodeKind::port && node.label == label; });
}

NodeId near(const Machine& machine, const std::string& device) {
  return cpu_of_domain(machine, fmt::format("{:.0f}", number(device + "/numa_node")));
}

void add_hidden(Machine& machine, const std::string& device, Node port, const std::string& why) {
  machine.unseen.push_back(fmt::format("where {} is plugged in: {}", port.label, why));
  const NodeId nic = add_device(machine, near(machine, device), {.kind = NodeKind::nic}, std::nullopt);
  add_unknown_port(machine, nic, std::move(port));
}

/// RDMA devices without a place on the bus: hidden by a virtual machine, or software (Soft-RoCE).
void add_rdma_devices(Machine& machine, const std::string& root) {
  const std::string all = root + "/sys/class/infiniband/";
  for (const std::string& name : names_in(all)) {
    if (has_port(machine, name)) continue;
    for (const std::string& port : names_in(all + name + "/ports"))
      add_hidden(machine, all + name + "/device", {.label = name, .rdma = true, .details = {{"port", port}}},
                 "it has no place on the PCI bus that this process sees");
  }
}

/// Ports that are down keep no link: nobody is given one that data cannot go through.
void cut_off_what_is_down(Machine& machine, const std::string& root) {
  std::erase_if(machine.links, [&](const Link& link) {
    const Node& port = machine.node(link.b);
    if (link.kind != LinkKind::wire || !is_down(root, port)) return false;
    machine.unseen.push_back(fmt::format("what is behind {}, which is down", port.label));
    return true;
  });
}

/// Where no adapter is seen that is up: the interfaces that are.
void add_interfaces(Machine& machine, const std::string& root) {
  const std::string all = root + "/sys/class/net/";
  for (const std::string& name : names_in(all)) {
    const std::string state = line(all + name + "/operstate");
    if (name == "lo" || state != "up") continue;
    add_hidden(machine, all + name + "/device", {.label = name},
               "no network adapter on the PCI bus that this process sees is up");
  }
}

/// hwloc tells the rate of the moment, which GPUs lower while they idle: what counts is the one that a GPU
/// and its slot have in common. The slots of virtual machines may claim less than they are.
void wake_up_gpus(Machine& machine, const std::string& root) {
  for (Link& link : machine.links) {
    const Node& gpu = machine.node(link.b);
    if (link.kind != LinkKind::pcie || gpu.kind != NodeKind::gpu || gpu.pci.empty()) continue;
    const std::string device = root + "/sys/bus/pci/devices/" + gpu.pci;
    const double own = number(device + "/max_link_speed"), slot = number(device + "/../max_link_speed");
    const double now = number(device + "/current_link_speed"), lanes = number(device + "/current_link_width");
    if (own <= 0 || lanes < 1 || lanes > 32) continue;  // 255: Linux does not know
    const double common = slot > 0 ? std::min(own, slot) : own;
    const PcieLink awake = pcie_link(std::max(common, now), static_cast<int>(lanes));
    link.bandwidth = awake.bandwidth;
    link.count = awake.lanes;
    link.assumed = false;
  }
}

/// Whether adapters reach the memory of NVIDIA's GPUs: through nvidia-peermem, or dma-buf, which the open
/// kernel module has.
bool has_gpudirect(const std::string& root) {
  std::error_code none;
  return fs::exists(root + "/sys/module/nvidia_peermem", none) ||
         fs::exists(root + "/sys/module/nv_peer_mem", none) ||
         line(root + "/proc/driver/nvidia/version").find("Open Kernel Module") != std::string::npos;
}

}  // namespace

void add_what_sysfs_knows(Machine& machine, const std::string& root) {
  wake_up_gpus(machine, root);
  add_rdma_devices(machine, root);
  cut_off_what_is_down(machine, root);
  if (std::ranges::find(machine.links, LinkKind::wire, &Link::kind) == machine.links.end())
    add_interfaces(machine, root);
  const bool gpudirect = has_gpudirect(root);
  for (Node& node : machine.nodes)
    if (node.kind == NodeKind::gpu && detail(node, "vendor") == "0x10de") node.rdma = gpudirect;
  for (Link& link : machine.links) {
    if (link.kind != LinkKind::wire) continue;
    const Node& port = machine.node(link.b);
    if (const double rate = gigabits(root, port); rate > 0) {
      link.bandwidth = wire_bandwidth(rate);
      link.assumed = false;
    } else {
      machine.unseen.push_back(fmt::format("the rate of {}; taken: {:.1f} GB/s",
                                           port.label.empty() ? name(port) : port.label, link.bandwidth));
    }
  }
}

}  // namespace tutti::topology
