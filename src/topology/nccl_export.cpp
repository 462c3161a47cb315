#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <tutti/error.hpp>

#include "topology/assemble.hpp"
#include "topology/escape.hpp"
#include "topology/nccl.hpp"
#include "topology/rates.hpp"

namespace tutti::topology {

namespace {

std::string attribute(const char* key, std::string_view value) {
  return fmt::format(" {}=\"{}\"", key, escaped_xml(value));
}

/// The attribute only where the machine knows it: NCCL then fills it in itself.
std::string known(const Node& node, const char* key, const char* as = nullptr) {
  const std::string value = detail(node, key);
  return value.empty() ? "" : attribute(as != nullptr ? as : key, value);
}

/// "sm" and its like, where it is the number that NCCL expects there.
std::string known_number(const Node& node, const char* key, const char* as) {
  const std::string value = detail(node, key);
  const bool is_number = value.size() < 10 && value.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? known(node, key, as) : "";
}

/// As the machine says, unless readers would take the device for one of another kind by it: an adapter's
/// ports stand below it, and tell.
std::string class_of(const Node& node) {
  std::string told = detail(node, "class");
  const NodeKind kind = kind_of_class(told);
  const bool fits = kind == node.kind || (node.kind == NodeKind::nic && kind == NodeKind::bridge);
  if (!told.empty() && fits) return told;
  return node.kind == NodeKind::bridge ? "0x060400" : node.kind == NodeKind::gpu ? "0x030200" : "0x020000";
}

/// Rate and lanes whose product comes nearest to the link's.
std::string speed_and_width(const Link* link) {
  if (link == nullptr || link->assumed || link->kind != LinkKind::pcie)
    return " link_speed=\"\" link_width=\"0\"";
  double best = 1e300, rate = 0;
  int lanes = 0;
  for (const int width : {16, 8, 4, 2, 1}) {
    if (link->count > 1 && link->count != width) continue;
    for (const double each : {2.5, 5.0, 8.0, 16.0, 32.0, 64.0}) {
      const double miss = std::abs(pcie_bandwidth(each, width) - link->bandwidth);
      if (miss >= best) continue;
      best = miss;
      rate = each;
      lanes = width;
    }
  }
  return fmt::format(" link_speed=\"{:.1f} GT/s PCIe\" link_width=\"{}\"", rate, lanes);
}

class Exporter {
 public:
  explicit Exporter(const Machine& machine)
      : machine_(machine), adjacency_(machine.adjacency()), below_(machine.nodes.size()) {
    find_places();
  }

  std::string run() {
    const bool amd =
        std::ranges::any_of(machine_.links, [](const Link& link) { return link.kind == LinkKind::xgmi; });
    text_ = fmt::format("<system version=\"{}\">\n", amd ? 2 : 1);
    for (const NodeId id : machine_.all(NodeKind::cpu)) cpu(id);
    return text_ + "</system>\n";
  }

 private:
  void line(int depth, const std::string& text) { text_ += fmt::format("{:{}}{}\n", "", 2 * depth, text); }

  void cpu(NodeId id) {
    cpu_ = id;
    const Node& node = machine_.node(id);
    std::string affinity = detail(node, "affinity");
    for (auto at = affinity.find("0x"); at != std::string::npos; at = affinity.find("0x"))
      affinity.erase(at, 2);
    line(1, fmt::format(
                "<cpu{}{}{}{}{}{}>", attribute("numaid", detail(node, "numaid", std::to_string(node.index))),
                affinity.empty() ? "" : attribute("affinity", affinity), known(node, "arch"),
                known(node, "vendor"), known(node, "family", "familyid"), known(node, "model", "modelid")));
    below(id, 2);
    line(1, "</cpu>");
  }

  struct Device {
    NodeId id = no_node;
    const Link* link = nullptr;  ///< to what it is written below; nullptr: there is none
  };

  /// A device is written below what it hangs on by PCIe, whose links have it as their second end, else a GPU
  /// below a processor that it is linked to. NCCL's files have no other places: what hangs on nothing is
  /// written below the first processor.
  void find_places() {
    std::vector<bool> placed(machine_.nodes.size());
    const auto place = [&](NodeId parent, NodeId id, const Link* link) {
      if (placed[static_cast<std::size_t>(id)]) return;
      placed[static_cast<std::size_t>(id)] = true;
      below_[static_cast<std::size_t>(parent)].push_back({id, link});
    };
    for (const Link& link : machine_.links) {
      const NodeId cpu = machine_.node(link.a).kind == NodeKind::cpu ? link.a : link.b;
      const NodeId other = link.a == cpu ? link.b : link.a;
      if (link.kind == LinkKind::pcie)
        place(link.a, link.b, &link);
      else if (machine_.node(cpu).kind == NodeKind::cpu && machine_.node(other).kind == NodeKind::gpu &&
               pcie_above(machine_, other) == nullptr)
        place(cpu, other, &link);
    }
    const auto cpus = machine_.all(NodeKind::cpu);
    for (const NodeKind kind : {NodeKind::bridge, NodeKind::gpu, NodeKind::nic})
      for (const NodeId id : machine_.all(kind)) {
        if (cpus.empty())
          throw Error(ErrorCode::invalid_argument,
                      fmt::format("topology \"{}\": NCCL's files have devices below processors only, and "
                                  "there is none",
                                  machine_.name));
        place(cpus.front(), id, nullptr);
      }
  }

  void below(NodeId parent, int depth) {
    for (const Device& one : below_[static_cast<std::size_t>(parent)]) device(parent, one, depth);
  }

  void device(NodeId parent, const Device& one, int depth) {
    const NodeId id = one.id;
    const Node& node = machine_.node(id);
    // On no bus. Below a bridge, it would make an adapter of that.
    if (node.kind == NodeKind::nic && node.pci.empty() && machine_.node(parent).kind == NodeKind::cpu)
      return nic(id, depth);
    line(depth, fmt::format("<pci{}{}{}{}{}{}{}>", attribute("busid", address(node)),
                            attribute("class", class_of(node)), known(node, "vendor"), known(node, "device"),
                            known(node, "subsystem_vendor"), known(node, "subsystem_device"),
                            speed_and_width(one.link)));
    if (node.kind == NodeKind::bridge) below(id, depth + 1);
    if (node.kind == NodeKind::gpu) gpu(id, depth + 1);
    if (node.kind == NodeKind::nic) nic(id, depth + 1);
    line(depth, "</pci>");
  }

  /// Invented where the bus is hidden, as hypervisors' own files do: NCCL only compares them.
  static std::string address(const Node& node) {
    constexpr int a_bus = 32;  // devices; of more, the next ones are in another domain
    const int bus = node.kind == NodeKind::bridge ? 0xfe : node.kind == NodeKind::gpu ? 0xfd : 0xfb;
    return node.pci.empty()
               ? fmt::format("{:04x}:{:02x}:{:02x}.0", 0xffff - node.index / a_bus, bus, node.index % a_bus)
               : node.pci;
  }

  void gpu(NodeId id, int depth) {
    const Node& node = machine_.node(id);
    std::string peers;
    for (const LinkId link : adjacency_[static_cast<std::size_t>(id)])
      peers += peer(id, machine_.link(link), depth + 1);
    const bool amd = !detail(node, "gcn").empty();
    const std::string sm = known_number(node, amd ? "compute_units" : "sm", "sm");
    if (peers.empty() && !amd && sm.empty()) return;  // NCCL knows it by its PCI class
    line(depth, fmt::format("<gpu dev=\"{}\"{}{} rank=\"{}\" gdr=\"{}\">", node.index, sm, known(node, "gcn"),
                            node.index, node.rdma ? 1 : 0));
    text_ += peers;
    line(depth, "</gpu>");
  }

  /// Of links to processors those to the one that it stands below: readers take all for that one's.
  [[nodiscard]] std::string peer(NodeId id, const Link& link, int depth) const {
    const NodeId far = link.a == id ? link.b : link.a;
    const Node& other = machine_.node(far);
    if (other.kind == NodeKind::cpu && far != cpu_) return "";
    std::string row;
    if (link.kind == LinkKind::c2c)
      row = fmt::format("<c2c bw=\"{:.0f}\" count=\"{}\"/>", 1000 * link.bandwidth / link.count, link.count);
    else if (link.kind == LinkKind::nvlink || link.kind == LinkKind::xgmi)
      row = fmt::format("<{}{} count=\"{}\"{}/>", name(link.kind),
                        attribute("target", other.kind == NodeKind::gpu ? address(other) : "ffff:fc:00.0"),
                        link.count, attribute("tclass", class_of_peer(other)));
    return row.empty() ? row : fmt::format("{:{}}{}\n", "", 2 * depth, row);
  }

  static std::string class_of_peer(const Node& peer) {
    if (peer.kind == NodeKind::nvswitch) return "0x068000";
    return peer.kind == NodeKind::cpu ? "0x068001" : class_of(peer);
  }

  void nic(NodeId id, int depth) {
    line(depth, "<nic>");
    for (const LinkId wire : adjacency_[static_cast<std::size_t>(id)]) {
      const Link& link = machine_.link(wire);
      if (link.kind != LinkKind::wire) continue;
      const Node& port = machine_.node(link.b);
      const std::string label = port.label.empty() ? name(port) : port.label;
      line(depth + 1,
           fmt::format("<net{} dev=\"{}\" speed=\"{:.0f}\" port=\"{}\" latency=\"0.0\" guid=\"0x{:x}\" "
                       "maxconn=\"131072\" gdr=\"{}\"/>",
                       attribute("name", label), port.index, 8000 * link.bandwidth,
                       escaped_xml(detail(port, "port", "1")), port.rdma ? machine_.node(id).index + 1 : 0,
                       port.rdma ? 1 : 0));
    }
    line(depth, "</nic>");
  }

  const Machine& machine_;
  std::vector<std::vector<LinkId>> adjacency_;
  NodeId cpu_ = no_node;                    ///< whose devices are being written
  std::vector<std::vector<Device>> below_;  ///< of every node
  std::string text_;
};

}  // namespace

std::string to_nccl_xml(const Machine& machine) { return Exporter(machine).run(); }

}  // namespace tutti::topology
