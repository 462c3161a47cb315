#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "topology/assemble.hpp"
#include "topology/nccl.hpp"
#include "topology/rates.hpp"
#include "topology/xml.hpp"

namespace tutti::topology {

namespace {

bool has_class(const XmlElement& element, const char* key, std::string_view prefix) {
  return element.text(key).starts_with(prefix);
}

const XmlElement* child(const XmlElement& element, std::string_view name) {
  const auto at = std::ranges::find(element.children, name, &XmlElement::name);
  return at == element.children.end() ? nullptr : &*at;
}

/// The link of a device to what it hangs on; nothing where the file has "" and "0", as virtual machines do,
/// or "Unknown", as Linux says of a link that is down.
std::optional<PcieLink> nccl_link(const XmlElement& pci) {
  const std::string speed = pci.text("link_speed"), width = pci.text("link_width");
  const bool is_told = !width.empty() && width != "255";  // which Linux says where it does not know
  const auto lanes = is_told ? static_cast<int>(pci.number("link_width", 0, 0, 64)) : 0;
  double gigatransfers = 0;
  std::from_chars(speed.data(), speed.data() + speed.size(), gigatransfers);
  if (!(gigatransfers >= 0 && gigatransfers <= 1024)) pci.refuse("link_speed=\"" + speed + "\"");
  if (gigatransfers == 0) return std::nullopt;
  return pcie_link(gigatransfers, lanes > 0 ? lanes : assumed_pcie_lanes);
}

void keep(Node& node, const XmlElement& from, const char* key, const char* as = nullptr) {
  if (const std::string* value = from.attribute(key); value != nullptr && !value->empty())
    node.details[as != nullptr ? as : key] = *value;
}

class NcclImporter {
 public:
  Machine run(const XmlElement& system) {
    if (system.name != "system") system.refuse("a topology file of NCCL begins with <system>");
    system.number("version", 1, 1, 2);
    for (const XmlElement& element : system.children)
      if (element.name == "cpu") cpu(element);
    if (machine_.nodes.empty()) system.refuse("holds no <cpu>");
    join_peers();
    say_what_is_missing();
    connect_cpus(machine_);
    finish(machine_);
    return std::move(machine_);
  }

 private:
  void cpu(const XmlElement& element) {
    if (hosts_.insert(element.text("host_hash")).second && hosts_.size() > 1)
      element.refuse("belongs to another host than the first <cpu>; a file must describe one machine");
    Node node{.details = {}};
    for (const char* key : {"numaid", "affinity", "arch", "vendor"}) keep(node, element, key);
    keep(node, element, "familyid", "family");
    keep(node, element, "modelid", "model");
    cpu_ = add_cpu(machine_, std::move(node));
    for (const XmlElement& below : element.children) {
      if (below.name == "pci") pci(below, cpu_);
      if (below.name == "nic") nic(below, cpu_, {}, std::nullopt);
    }
  }

  void pci(const XmlElement& element, NodeId parent) {
    const std::string address = pci_address(element.text("busid"));
    if (address.empty()) element.refuse("busid=\"" + element.text("busid") + "\" is no PCI address");
    Node node{.pci = address};
    for (const char* key : {"class", "vendor", "device", "subsystem_vendor", "subsystem_device"})
      keep(node, element, key);
    const auto link = nccl_link(element);
    const NodeKind kind = kind_of_class(element.text("class"));
    if (child(element, "gpu") != nullptr || kind == NodeKind::gpu)
      gpu(element, parent, std::move(node), link);
    else if (const XmlElement* ports = child(element, "nic"); ports != nullptr)
      nic(*ports, parent, std::move(node), link);
    else if (kind == NodeKind::nic)
      nic_of_skeleton(parent, std::move(node), link, element);
    else if (kind == NodeKind::nvswitch)
      ++nvswitches_;
    else
      bridge(element, parent, std::move(node), link);
  }

  void bridge(const XmlElement& element, NodeId parent, Node node, std::optional<PcieLink> link) {
    node.kind = NodeKind::bridge;
    const NodeId id = add_device(machine_, parent, std::move(node), link);
    remember(machine_.node(id).pci, id);
    for (const XmlElement& below : element.children)
      if (below.name == "pci") pci(below, id);
  }

  void gpu(const XmlElement& element, NodeId parent, Node node, std::optional<PcieLink> link) {
    node.kind = NodeKind::gpu;
    node.rdma = true;
    const XmlElement* more = child(element, "gpu");
    if (more != nullptr) {
      node.rdma = more->number("gdr", 0, -most_xml_number, most_xml_number) > 0;
      keep(node, *more, "dev");
      keep(node, *more, "gcn");
      more->number("sm", 0, 0, most_xml_number);
      keep(node, *more, "sm", more->attribute("gcn") != nullptr ? "compute_units" : "sm");
    } else {
      ++bare_gpus_;
    }
    const NodeId id = add_device(machine_, parent, std::move(node), link);
    remember(machine_.node(id).pci, id);
    if (more == nullptr) return;
    for (const XmlElement& peer : more->children)
      if (peer.name == "nvlink" || peer.name == "xgmi" || peer.name == "c2c")
        links_.push_back({id, &peer, cpu_});
  }

  /// The functions of one adapter are one node, as they share its PCIe link; so they are to NCCL.
  NodeId adapter(NodeId parent, Node node, std::optional<PcieLink> link) {
    node.kind = NodeKind::nic;
    const std::string address = node.pci;  // empty: on no bus
    const std::string device = address.substr(0, address.rfind('.'));
    const auto known = adapters_.find(device);
    const NodeId id =
        known != adapters_.end() ? known->second : add_device(machine_, parent, std::move(node), link);
    if (address.empty()) return id;
    adapters_.emplace(device, id);
    remember(address, id);
    return id;
  }

  void nic(const XmlElement& element, NodeId parent, Node node, std::optional<PcieLink> link) {
    const NodeId id = adapter(parent, std::move(node), link);
    for (const XmlElement& net : element.children) {
      if (net.name != "net" || net.number("net", 1, 0, 1) == 0) continue;
      // NCCL's sockets have guids as well: their number. Their port is 0, where RDMA devices count from 1.
      const bool has_guid =
          net.text("guid").find_first_not_of("0x") != std::string::npos && net.text("port") != "0";
      Node port{.label = net.text("name"),
                .rdma = has_guid || net.number("gdr", 0, -most_xml_number, most_xml_number) > 0};
      keep(port, net, "dev");
      keep(port, net, "port");
      add_port(machine_, id, std::move(port),
               static_cast<double>(net.number("speed", 0, -1, most_xml_number)) / 1000);
    }
  }

  /// Taken to have one port as fast as its PCIe link. RDMA: InfiniBand's class, or a vendor of whose Ethernet
  /// adapters all recent ones speak it (Mellanox, Amazon's EFA).
  void nic_of_skeleton(NodeId parent, Node node, std::optional<PcieLink> link, const XmlElement& element) {
    const std::string vendor = element.text("vendor"), device = element.text("device");
    const bool rdma = has_class(element, "class", "0x0207") || vendor == "0x15b3" ||
                      (vendor == "0x1d0f" && device.starts_with("0xefa"));
    add_unknown_port(machine_, adapter(parent, std::move(node), link), {.rdma = rdma});
    ++bare_nics_;
  }

  void remember(const std::string& address, NodeId id) {
    if (!by_address_.emplace(address, id).second) ++shared_addresses_;
  }

  struct PeerLink {
    NodeId gpu = no_node;
    const XmlElement* element = nullptr;
    NodeId cpu = no_node;  ///< that of the GPU
  };

  [[nodiscard]] double rate_of_one(NodeId gpu, LinkKind kind) const {
    const Node& node = machine_.node(gpu);
    if (kind == LinkKind::xgmi) return xgmi_bandwidth(detail(node, "gcn"));
    return nvlink_bandwidth(std::stoi(detail(node, "sm", "0")));
  }

  void join_peers() {
    PeerLinks told;
    for (const auto& [gpu, element, cpu] : links_) {
      const int count = static_cast<int>(element->number("count", 1, 0, most_side_by_side));
      const LinkKind kind = element->name == "xgmi" ? LinkKind::xgmi : LinkKind::nvlink;
      if (element->name == "c2c") {
        const auto each = static_cast<double>(element->number("bw", 0, 1, most_xml_number)) / 1000;
        told.tell({gpu, cpu, LinkKind::c2c}, count, each);
      } else if (has_class(*element, "tclass", "0x068001")) {
        told.tell({gpu, cpu, kind}, count, rate_of_one(gpu, kind));
      } else if (has_class(*element, "tclass", "0x0680")) {
        told.tell({gpu, the_nvswitch(machine_), kind}, count, rate_of_one(gpu, kind));
      } else if (const NodeId peer = peer_of(gpu, *element); peer != no_node) {
        told.tell({gpu, peer, kind}, count, rate_of_one(gpu, kind));
      }
    }
    told.join(machine_);
  }

  NodeId peer_of(NodeId gpu, const XmlElement& element) {
    const std::string target = pci_address(element.text("target"));
    if (target.empty()) element.refuse("target=\"" + element.text("target") + "\" is no PCI address");
    const auto at = by_address_.find(target);
    const bool found = at != by_address_.end() && machine_.node(at->second).kind == NodeKind::gpu;
    if (found && at->second != gpu) return at->second;
    machine_.unseen.push_back(fmt::format("line {}: links of {} lead to {}; left out", element.line,
                                          machine_.node(gpu).pci,
                                          found ? "itself" : target + ", which is no GPU of the file"));
    return no_node;
  }

  void say_what_is_missing() {
    auto& unseen = machine_.unseen;
    if (bare_gpus_ > 0)
      unseen.push_back(fmt::format(
          "{} GPUs are known by their PCI class only: model, NVLinks and GPUDirect RDMA are not in the file "
          "(taken: no NVLink, GPUDirect RDMA)",
          bare_gpus_));
    if (bare_nics_ > 0)
      unseen.push_back(fmt::format(
          "{} adapters are known by their PCI class only: taken to have one port as fast as its PCIe link",
          bare_nics_));
    if (nvswitches_ > 0 && machine_.count(NodeKind::nvswitch) == 0)
      unseen.push_back(fmt::format("{} NVSwitches without a word on who is linked to them", nvswitches_));
    if (shared_addresses_ > 0)
      unseen.push_back(fmt::format("{} PCI devices have the address of another one", shared_addresses_));
    if (nvswitches_ > 0 && machine_.count(NodeKind::nvswitch) > 0)
      machine_.node(the_nvswitch(machine_)).details["switches"] = std::to_string(nvswitches_);
  }

  Machine machine_;
  NodeId cpu_ = no_node;  ///< whose devices are being read
  std::set<std::string> hosts_;
  std::map<std::string, NodeId> by_address_;
  std::map<std::string, NodeId> adapters_;  ///< by PCI address without the function
  std::vector<PeerLink> links_;
  int bare_gpus_ = 0, bare_nics_ = 0, nvswitches_ = 0, shared_addresses_ = 0;
};

}  // namespace

Machine from_nccl_xml(const XmlElement& system) { return NcclImporter().run(system); }

}  // namespace tutti::topology
