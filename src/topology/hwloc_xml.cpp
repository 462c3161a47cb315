#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "topology/assemble.hpp"
#include "topology/hwloc.hpp"
#include "topology/rates.hpp"
#include "topology/xml.hpp"

namespace tutti::topology {

namespace {

/// "0302 [10de:1db8] [10de:131d] a1" taken apart, in the way sysfs writes it.
struct PciType {
  std::string base{};  ///< the class without its last byte: "0302"
  std::map<std::string, std::string> details{};

  explicit PciType(const std::string& text) {
    if (text.size() < 28 || text[5] != '[' || text[10] != ':' || text[17] != '[' || text[22] != ':') return;
    base = text.substr(0, 4);
    details = {{"class", "0x" + base + "00"},
               {"vendor", "0x" + text.substr(6, 4)},
               {"device", "0x" + text.substr(11, 4)},
               {"subsystem_vendor", "0x" + text.substr(18, 4)},
               {"subsystem_device", "0x" + text.substr(23, 4)}};
  }
};

std::string info(const XmlElement& object, std::string_view key) {
  for (const XmlElement& child : object.children)
    if (child.name == "info" && child.text("name") == key) return child.text("value");
  return {};
}

/// hwloc gives the rate of a whole link, without encoding; 15.75 GB/s are what NCCL reckons 12 for.
std::optional<PcieLink> hwloc_link(const XmlElement& device) {
  const std::string speed = device.text("pci_link_speed");
  double whole = 0;
  std::from_chars(speed.data(), speed.data() + speed.size(), whole);
  if (!(whole >= 0 && whole <= 1e5)) device.refuse("pci_link_speed=\"" + speed + "\"");
  if (whole == 0) return std::nullopt;
  return PcieLink{.bandwidth = whole * pcie_bandwidth(8, 16) / (8.0 * 16 / 8 * 128 / 130)};
}

/// A set as hwloc writes it: "0x00000003", "0x1,,0x0" with the highest word first. Endless ones, "0xf...f",
/// are taken for empty.
class Bits {
 public:
  explicit Bits(const std::string& text) {
    if (text.find("...") != std::string::npos) return;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      std::uint32_t word = 0;
      if (text.compare(at, 2, "0x") == 0) std::from_chars(text.data() + at + 2, text.data() + end, word, 16);
      words_.push_back(word);
      at = end + 1;
    }
    std::ranges::reverse(words_);
  }

  [[nodiscard]] bool any() const {
    return std::ranges::any_of(words_, [](std::uint32_t word) { return word != 0; });
  }
  [[nodiscard]] bool has(int bit) const {
    const auto at = static_cast<std::size_t>(bit) / 32;
    return at < words_.size() && (words_[at] >> (bit % 32) & 1U) != 0;
  }
  [[nodiscard]] bool overlaps(const Bits& other) const {
    for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i)
      if ((words_[i] & other.words_[i]) != 0) return true;
    return false;
  }

 private:
  std::vector<std::uint32_t> words_;  ///< the lowest first
};

bool is_device(const XmlElement& element, std::string_view type) {
  return element.name == "object" && element.text("type") == type;
}

class HwlocImporter {
 public:
  explicit HwlocImporter(const std::set<std::string>& computing) : computing_(computing) {}

  Machine run(const XmlElement& topology) {
    if (topology.name != "topology") topology.refuse("a file of hwloc begins with <topology>");
    const std::string version = topology.text("version");
    // Version 2 numbers the kinds of devices, version 3 gives each a bit: 2 is a network, then memory.
    if (version.starts_with("3.")) {
      network_ = "16";
      rdma_ = "48";
    } else if (!version.starts_with("2.")) {
      topology.refuse("version \"" + version +
                      "\"; 2 and 3 are read (lstopo of hwloc 2 converts older ones)");
    }
    const auto machine = std::ranges::find_if(
        topology.children, [](const XmlElement& child) { return is_device(child, "Machine"); });
    if (machine == topology.children.end()) topology.refuse("holds no Machine");
    arch_ = architecture(*machine, topology);
    std::map<int, Domain> found;
    find_domains(*machine, nullptr, found);
    add_domains(found);
    if (domains_.empty()) machine->refuse("holds no NUMANode with processors");
    const NodeId first = domains_.begin()->second;
    devices(*machine, {.parent = first, .cpu = first});
    PeerLinks told;
    for (const XmlElement& child : topology.children)
      if (child.name.starts_with("distances2")) distances(child, told);
    told.join(machine_);
    connect_cpus(machine_);
    finish(machine_);
    return std::move(machine_);
  }

 private:
  /// In NCCL's words. Version 3 tells it of the topology, not of the machine.
  static std::string architecture(const XmlElement& machine, const XmlElement& topology) {
    std::string told = info(machine, "Architecture");
    if (told.empty()) told = info(topology, "Architecture");
    if (told == "aarch64") return "arm64";
    return told.starts_with("ppc64") ? "ppc64" : told;
  }

  /// A NUMA node of the file.
  struct Domain {
    Bits processors;
    const XmlElement* node = nullptr;
    const XmlElement* package = nullptr;  ///< that it is in; nullptr: none
  };

  /// All of them, by the system's number.
  static void find_domains(const XmlElement& object, const XmlElement* package,
                           std::map<int, Domain>& found) {
    if (is_device(object, "Package")) package = &object;
    if (is_device(object, "NUMANode")) {
      const int index = static_cast<int>(object.number("os_index", 0, 0, most_xml_number));
      found.emplace(index, Domain{Bits(object.text("cpuset")), &object, package});
    }
    for (const XmlElement& child : object.children)
      if (child.name == "object") find_domains(child, package, found);
  }

  [[nodiscard]] Node cpu_of(int index, const Domain& domain) const {
    Node cpu{.details = {{"affinity", domain.node->text("cpuset")}, {"numaid", std::to_string(index)}}};
    if (!arch_.empty()) cpu.details["arch"] = arch_;
    if (domain.package == nullptr) return cpu;
    cpu.package = static_cast<int>(domain.package->number("os_index", -1, -1, most_xml_number));
    cpu.label = info(*domain.package, "CPUModel");
    for (const auto& [key, name] :
         {std::pair{"vendor", "CPUVendor"}, {"family", "CPUFamilyNumber"}, {"model", "CPUModelNumber"}})
      if (auto value = info(*domain.package, name); !value.empty()) cpu.details[key] = std::move(value);
    return cpu;
  }

  /// Memory without processors (of a GPU, or CXL's) is no place to run at. Nor is memory of another kind
  /// (HBM), which hwloc gives the processors near to it, be they of one domain or of several: the system
  /// counts the domains first. It says nothing of devices, as what is near to it is near to a domain.
  void add_domains(const std::map<int, Domain>& found) {
    std::vector<Bits> added;
    for (const auto& [index, domain] : found) {
      const bool is_known = std::ranges::any_of(
          added, [&one = domain](const Bits& other) { return other.overlaps(one.processors); });
      if (is_known || !domain.processors.any()) continue;
      domains_[index] = add_cpu(machine_, cpu_of(index, domain));
      added.push_back(domain.processors);
    }
  }

  struct Place {
    NodeId parent = no_node;  ///< what a device hangs on
    NodeId cpu = no_node;     ///< its NUMA domain
    bool certain = false;     ///< that this is known
    int bridges = 0;          ///< from the host bridge down
  };

  /// `object`: neither bridge nor device; its node set says where its host bridges are.
  void devices(const XmlElement& object, Place place) {
    if (const std::string* nodes = object.attribute("nodeset"); nodes != nullptr) {
      const Bits told(*nodes);
      std::vector<NodeId> near;
      for (const auto& [index, cpu] : domains_)
        if (told.has(index)) near.push_back(cpu);
      const NodeId cpu = near.empty() ? domains_.begin()->second : near.front();
      place = {.parent = cpu, .cpu = cpu, .certain = near.size() == 1};
    }
    for (const XmlElement& child : object.children) {
      if (is_device(child, "Bridge"))
        bridge(child, place);
      else if (is_device(child, "PCIDev"))
        device(child, place);
      else if (is_device(child, "OSDev"))
        loose_device(child, place);
      else if (child.name == "object")
        devices(child, place);
    }
  }

  /// From the host bridge down come, in turn, root port or downstream port, and upstream port: the second,
  /// fourth, ... bridge on the way is a switch; the others are its ends.
  void bridge(const XmlElement& element, Place place) {
    if (const bool to_host = element.text("bridge_type").starts_with("0-"); !to_host) {
      if (++place.bridges % 2 == 0) {
        Node node{.kind = NodeKind::bridge,
                  .pci = pci_address(element.text("pci_busid")),
                  .details = PciType(element.text("pci_type")).details};
        place.parent = add_device(machine_, place.parent, std::move(node), hwloc_link(element));
      }
    }
    for (const XmlElement& child : element.children) {
      if (is_device(child, "Bridge")) bridge(child, place);
      if (is_device(child, "PCIDev")) device(child, place);
    }
  }

  void device(const XmlElement& element, const Place& place) {
    PciType type(element.text("pci_type"));
    Node node{.pci = pci_address(element.text("pci_busid")), .details = std::move(type.details)};
    const bool computes = is_gpu(element, type.base) || computing_.contains(node.pci);
    if (!computes && !type.base.starts_with("02")) return;
    if (node.pci.empty()) element.refuse("pci_busid=\"" + element.text("pci_busid") + "\" is no PCI address");
    if (computes)
      gpu(element, place, std::move(node), "PCIDev:" + element.text("gp_index"));
    else
      nic(element, place, std::move(node));
  }

  /// A display controller (0300) is one only if a driver computes on it: most are the board's own.
  static bool is_gpu(const XmlElement& element, std::string_view base) {
    if (base == "0302" || base == "1200") return true;
    return base.starts_with("03") && std::ranges::any_of(element.children, [](const XmlElement& child) {
             const std::string name = child.text("name");
             return is_device(child, "OSDev") &&
                    (name.starts_with("cuda") || name.starts_with("nvml") || name.starts_with("rsmi"));
           });
  }

  void gpu(const XmlElement& element, const Place& place, Node node, const std::string& id) {
    node.kind = NodeKind::gpu;
    node.rdma = true;
    for (const XmlElement& child : element.children) {
      const std::string name = child.text("name");
      if (!is_device(child, "OSDev")) continue;
      if (const std::string model = info(child, "GPUModel"); !model.empty()) node.label = model;
      for (const std::string_view prefix : {"rsmi", "nvml", "cuda"})  // CUDA's number counts most
        if (name.starts_with(prefix)) node.details["dev"] = name.substr(prefix.size());
    }
    say_if_uncertain(place, node.pci);
    const NodeId gpu = add_device(machine_, place.parent, std::move(node), hwloc_link(element));
    gpus_[id] = gpu;
    for (const XmlElement& child : element.children)
      if (is_device(child, "OSDev")) gpus_["OSDev:" + child.text("gp_index")] = gpu;
  }

  /// The functions of one adapter are one node with several ports, as they share its PCIe link.
  void nic(const XmlElement& element, const Place& place, Node node) {
    node.kind = NodeKind::nic;
    node.label = info(element, "PCIDevice");
    const std::string adapter = node.pci.substr(0, node.pci.rfind('.'));
    auto at = nics_.find(adapter);
    if (at == nics_.end()) {
      say_if_uncertain(place, node.pci);
      at = nics_.emplace(adapter, add_device(machine_, place.parent, std::move(node), hwloc_link(element)))
               .first;
    }
    ports(element, at->second);
  }

  /// An RDMA device names its ports; Ethernet's interfaces are ports only where it is not there.
  void ports(const XmlElement& element, NodeId nic) {
    std::vector<Node> rdma, plain;
    for (const XmlElement& child : element.children) {
      if (!is_device(child, "OSDev")) continue;
      if (child.text("osdev_type") == network_) plain.push_back({.label = child.text("name")});
      if (child.text("osdev_type") != rdma_) continue;
      int count = 1;
      while (!info(child, fmt::format("Port{}State", count + 1)).empty() && count < 256) ++count;
      for (int number = 1; number <= count; ++number)
        rdma.push_back(
            {.label = child.text("name"), .rdma = true, .details = {{"port", std::to_string(number)}}});
    }
    if (rdma.empty() && plain.empty()) plain.push_back({});  // no driver has it
    for (Node& port : rdma.empty() ? plain : rdma) add_unknown_port(machine_, nic, std::move(port));
  }

  /// An interface that no PCI device stands behind, as in some virtual machines.
  void loose_device(const XmlElement& element, const Place& place) {
    if (element.text("osdev_type") != network_) return;
    const NodeId nic = add_device(machine_, place.parent, {.kind = NodeKind::nic}, std::nullopt);
    add_unknown_port(machine_, nic, {.label = element.text("name")});
  }

  void say_if_uncertain(const Place& place, const std::string& address) {
    if (!place.certain && machine_.count(NodeKind::cpu) > 1)
      machine_.unseen.push_back(
          fmt::format("which NUMA domain {} is near to; taken: {}", address, name(machine_.node(place.cpu))));
  }

  /// Between devices, each with each, in the order of `ids`.
  struct Matrix {
    std::vector<std::string> ids;  ///< "PCIDev:12", "OSDev:34"
    std::vector<double> values;
  };

  static Matrix matrix(const XmlElement& element) {
    const std::string type = element.text("type");
    Matrix found;
    auto& [ids, values] = found;
    for (const XmlElement& child : element.children) {
      for (std::size_t at = 0; at < child.content.size();) {
        const std::size_t end = std::min(child.content.find_first_of(" \n\t", at), child.content.size());
        const std::string word = child.content.substr(at, end - at);
        at = end + 1;
        if (word.empty()) continue;
        if (child.name == "indexes") ids.push_back(type.empty() ? word : fmt::format("{}:{}", type, word));
        double value = 0;
        std::from_chars(word.data(), word.data() + word.size(), value);
        if (child.name == "u64values") values.push_back(value);
      }
    }
    if (ids.size() > 1024 || values.size() != ids.size() * ids.size())
      element.refuse(fmt::format("{} values for {} devices", values.size(), ids.size()));
    return found;
  }

  /// Bandwidths in MB/s between GPUs, and switches.
  void distances(const XmlElement& element, PeerLinks& told) {
    const std::string name = element.text("name");
    if (name != "NVLinkBandwidth" && name != "XGMIBandwidth") return;
    const auto [ids, values] = matrix(element);
    // Besides GPUs there are switches, some of whose PCI class the system may hide.
    for (const std::string& id : ids)
      if (id.starts_with("PCIDev:") && !gpus_.contains(id)) switches_.insert(id);
    const LinkKind kind = name == "XGMIBandwidth" ? LinkKind::xgmi : LinkKind::nvlink;
    const double each = kind == LinkKind::xgmi ? xgmi_bandwidth("") : nvlink_bandwidth(0);
    constexpr double told_each = 25'000;  // what hwloc writes for one link, before Blackwell
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto gpu = gpus_.find(ids[i]);
      if (gpu == gpus_.end()) continue;
      for (std::size_t j = 0; j < ids.size(); ++j) {
        const double value = values[i * ids.size() + j];
        if (i == j || !(value >= 1 && value < 1e8)) continue;
        const int count = std::max(1, static_cast<int>(std::lround(value / told_each)));
        if (switches_.contains(ids[j]))
          told.tell({gpu->second, the_nvswitch(machine_), kind}, count, each);
        else if (const auto peer = gpus_.find(ids[j]); peer != gpus_.end() && peer->second != gpu->second)
          told.tell({gpu->second, peer->second, kind}, count, each);
      }
    }
    if (!switches_.empty() && machine_.count(NodeKind::nvswitch) > 0)
      machine_.node(the_nvswitch(machine_)).details["switches"] = std::to_string(switches_.size());
  }

  const std::set<std::string>& computing_;
  Machine machine_;
  std::string arch_;
  std::string_view network_ = "2", rdma_ = "3";  ///< "osdev_type" of an interface, and of an RDMA device
  std::map<int, NodeId> domains_;                ///< by the system's number of the NUMA domain
  std::map<std::string, NodeId> gpus_;           ///< by "PCIDev:12" and "OSDev:34"
  std::map<std::string, NodeId> nics_;           ///< by PCI address without the function
  std::set<std::string> switches_;
};

}  // namespace

Machine from_hwloc_xml(const XmlElement& topology, const std::set<std::string>& computing) {
  return HwlocImporter(computing).run(topology);
}

}  // namespace tutti::topology
