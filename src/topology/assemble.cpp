#include "topology/assemble.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <utility>

#include "topology/rates.hpp"

namespace tutti::topology {

namespace {

/// Whether `lower` is the second level of the switch `upper`.
bool is_one_switch(const Node& upper, const Node& lower) {
  const auto is = [](const Node& node, const char* device, std::string_view subsystem) {
    return detail(node, "vendor") == "0x1000" && detail(node, "device") == device &&
           detail(node, "subsystem_vendor") == "0x1000" &&
           detail(node, "subsystem_device").starts_with(subsystem);
  };
  return (is(upper, "0xc010", "0xa") && is(lower, "0xc010", "0xa")) ||
         (is(upper, "0xc030", "0x0") && is(lower, "0xc030", "0x1"));
}

/// Removes nodes and their links, and counts those of their kind anew.
void remove_nodes(Machine& machine, const std::vector<bool>& gone) {
  std::vector<NodeId> renamed(machine.nodes.size(), no_node);
  Machine kept;
  for (std::size_t id = 0; id < machine.nodes.size(); ++id)
    if (!gone[id]) renamed[id] = kept.add(std::move(machine.nodes[id]));
  machine.nodes = std::move(kept.nodes);
  std::erase_if(machine.links, [&](const Link& link) {
    return gone[static_cast<std::size_t>(link.a)] || gone[static_cast<std::size_t>(link.b)];
  });
  for (Link& link : machine.links) {
    link.a = renamed[static_cast<std::size_t>(link.a)];
    link.b = renamed[static_cast<std::size_t>(link.b)];
  }
}

void join_switch_levels(Machine& machine) {
  std::vector<bool> gone(machine.nodes.size());
  for (const NodeId lower : machine.all(NodeKind::bridge)) {
    const Link* up = pcie_above(machine, lower);
    if (up == nullptr || machine.node(up->a).kind != NodeKind::bridge) continue;
    const NodeId upper = up->a;
    if (gone[static_cast<std::size_t>(upper)] || !is_one_switch(machine.node(upper), machine.node(lower)))
      continue;
    machine.links.erase(machine.links.begin() + (up - machine.links.data()));
    for (Link& link : machine.links)
      if (link.a == lower) link.a = upper;
    gone[static_cast<std::size_t>(lower)] = true;
  }
  remove_nodes(machine, gone);
}

void drop_empty_bridges(Machine& machine) {
  std::vector<bool> leads(machine.nodes.size());
  // From the leaves up: what a node hangs on was added before it.
  for (std::size_t id = machine.nodes.size(); id-- > 0;) {
    if (machine.nodes[id].kind != NodeKind::bridge) leads[id] = true;
    for (const Link& link : machine.links)
      if (link.kind == LinkKind::pcie && link.b == static_cast<NodeId>(id) && leads[id])
        leads[static_cast<std::size_t>(link.a)] = true;
  }
  leads.flip();
  remove_nodes(machine, leads);
}

/// A port has its adapter's.
std::string address_of(const Machine& machine, NodeId id) {
  for (const Link& link : machine.links)
    if (link.kind == LinkKind::wire && link.b == id) return machine.node(link.a).pci;
  return machine.node(id).pci;
}

void number(Machine& machine, NodeKind kind) {
  auto ids = machine.all(kind);
  std::ranges::stable_sort(ids, {}, [&](NodeId id) {
    const auto dev = detail(machine.node(id), "dev");
    int value = std::numeric_limits<int>::max();
    std::from_chars(dev.data(), dev.data() + dev.size(), value);
    return std::pair(value, address_of(machine, id));
  });
  for (std::size_t i = 0; i < ids.size(); ++i) {
    machine.node(ids[i]).index = static_cast<int>(i);
    machine.node(ids[i]).details.erase("dev");
  }
}

}  // namespace

NodeId add_cpu(Machine& machine, Node cpu) {
  cpu.kind = NodeKind::cpu;
  const NodeId id = machine.add(std::move(cpu));
  const NodeId memory = machine.add(Node{.kind = NodeKind::memory});
  machine.add(Link{.a = id,
                   .b = memory,
                   .kind = LinkKind::memory,
                   .bandwidth = assumed_memory_bandwidth,
                   .latency = latency(LinkKind::memory),
                   .assumed = true});
  return id;
}

NodeId cpu_of_domain(const Machine& machine, std::string_view numaid) {
  const auto cpus = machine.all(NodeKind::cpu);
  const auto at =
      std::ranges::find_if(cpus, [&](NodeId id) { return detail(machine.node(id), "numaid") == numaid; });
  return at != cpus.end() ? *at : cpus.front();
}

void connect_cpus(Machine& machine) {
  const auto cpus = machine.all(NodeKind::cpu);
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    for (std::size_t j = i + 1; j < cpus.size(); ++j) {
      const Node &a = machine.node(cpus[i]), &b = machine.node(cpus[j]);
      const bool on_die = a.package == b.package && a.package >= 0;
      const double known = on_die ? 0 : std::min(socket_bandwidth(a), socket_bandwidth(b));
      const double assumed = on_die ? assumed_memory_bandwidth : assumed_socket_bandwidth;
      machine.add(Link{.a = cpus[i],
                       .b = cpus[j],
                       .kind = LinkKind::socket,
                       .bandwidth = known > 0 ? known : assumed,
                       .latency = latency(LinkKind::socket),
                       .assumed = known <= 0});
    }
  }
}

PcieLink pcie_link(double gigatransfers, int lanes) {
  return {.bandwidth = pcie_bandwidth(gigatransfers, lanes), .lanes = lanes};
}

NodeId add_device(Machine& machine, NodeId parent, Node device, std::optional<PcieLink> link) {
  const PcieLink seen = link.value_or(pcie_link(assumed_pcie_gigatransfers, assumed_pcie_lanes));
  const NodeId id = machine.add(std::move(device));
  machine.add(Link{.a = parent,
                   .b = id,
                   .kind = LinkKind::pcie,
                   .bandwidth = seen.bandwidth,
                   .latency = latency(LinkKind::pcie),
                   .count = seen.lanes,
                   .assumed = !link});
  return id;
}

const Link* pcie_above(const Machine& machine, NodeId id) {
  const auto at = std::ranges::find_if(
      machine.links, [&](const Link& link) { return link.kind == LinkKind::pcie && link.b == id; });
  return at != machine.links.end() ? &*at : nullptr;
}

NodeId add_port(Machine& machine, NodeId nic, Node port, double gigabits) {
  port.kind = NodeKind::port;
  const NodeId id = machine.add(std::move(port));
  machine.add(Link{.a = nic,
                   .b = id,
                   .kind = LinkKind::wire,
                   .bandwidth = gigabits > 0 ? wire_bandwidth(gigabits) : assumed_wire_bandwidth,
                   .latency = latency(LinkKind::wire),
                   .assumed = gigabits <= 0});
  return id;
}

NodeId add_unknown_port(Machine& machine, NodeId nic, Node port) {
  const Link* up = pcie_above(machine, nic);
  const bool known = up != nullptr && !up->assumed;
  const double bandwidth = known ? up->bandwidth : assumed_wire_bandwidth;
  const NodeId id = add_port(machine, nic, std::move(port), 0);
  machine.links.back().bandwidth = bandwidth;
  return id;
}

void add_peer_links(Machine& machine, NodeId a, NodeId b, LinkKind kind, int count, double each) {
  if (a > b) std::swap(a, b);
  auto at = std::ranges::find_if(
      machine.links, [&](const Link& link) { return link.a == a && link.b == b && link.kind == kind; });
  if (at == machine.links.end())
    at = machine.links.insert(at, Link{.a = a, .b = b, .kind = kind, .latency = latency(kind), .count = 0});
  at->count += count;
  at->bandwidth += count * each;
}

void PeerLinks::tell(const Ends& ends, int count, double each) {
  constexpr int too_many = most_side_by_side + 1;  // which `check` refuses; the sum of a file may be any
  if (count <= 0) return;
  Told& told = told_[ends];
  told.count = std::min(told.count + std::min(count, too_many), too_many);
  told.each = each;
}

void PeerLinks::join(Machine& machine) const {
  for (const auto& [ends, told] : told_) {
    const auto back = told_.find({ends.peer, ends.teller, ends.kind});
    if (back != told_.end() && ends.peer < ends.teller) continue;
    const int count = back == told_.end() ? told.count : std::max(told.count, back->second.count);
    add_peer_links(machine, ends.teller, ends.peer, ends.kind, count, told.each);
  }
}

NodeId the_nvswitch(Machine& machine) {
  const auto at = std::ranges::find(machine.nodes, NodeKind::nvswitch, &Node::kind);
  if (at != machine.nodes.end()) return static_cast<NodeId>(at - machine.nodes.begin());
  return machine.add(Node{.kind = NodeKind::nvswitch});
}

void finish(Machine& machine) {
  check(machine);
  join_switch_levels(machine);
  drop_empty_bridges(machine);
  number(machine, NodeKind::gpu);
  number(machine, NodeKind::port);
}

NodeKind kind_of_class(std::string_view pci_class) {
  if (pci_class.starts_with("0x03") || pci_class.starts_with("0x12")) return NodeKind::gpu;
  if (pci_class.starts_with("0x02")) return NodeKind::nic;
  return pci_class.starts_with("0x0680") ? NodeKind::nvswitch : NodeKind::bridge;
}

std::string pci_address(std::string_view text) {
  std::string address(text);
  std::ranges::transform(address, address.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto dot = address.rfind('.');
  if (dot != std::string::npos && std::ranges::count(address, ':') == 1) address.insert(0, "0000:");
  // The domain has 16 bits, or 32: with zeros in front, or behind Intel's VMD, which counts from 10000.
  const auto domain = address.find(':');
  if (domain != std::string::npos && domain > 4)
    address.erase(0, std::min(address.find_first_not_of('0'), domain - 4));
  std::string form = "xxxx:xx:xx.x";
  if (domain != std::string::npos) form.insert(0, std::clamp<std::size_t>(address.find(':'), 4, 8) - 4, 'x');
  const bool fits =
      address.size() == form.size() && std::ranges::equal(address, form, [](unsigned char c, char wanted) {
        return wanted == 'x' ? std::isxdigit(c) != 0 : c == static_cast<unsigned char>(wanted);
      });
  return fits ? address : std::string{};
}

}  // namespace tutti::topology
