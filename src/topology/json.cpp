#include "topology/json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>

#include <tutti/error.hpp>

#include "base/hash.hpp"
#include "base/json_depth.hpp"
#include "topology/assemble.hpp"

namespace tutti::topology {

namespace {

using Json = nlohmann::ordered_json;
using Given = nlohmann::json;  // reads keys in a tree: ordered_json compares each with all before it
constexpr int format_version = 1;

// Becomes an Error, behind the row that it is about.
[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

template <class Kind, std::size_t N>
Kind kind_named(const std::array<Kind, N>& kinds, const std::string& text) {
  for (const Kind kind : kinds)
    if (name(kind) == text) return kind;
  refuse("there is no kind \"" + text + "\"");
}

NodeKind node_kind(const std::string& text) {
  using enum NodeKind;
  return kind_named(std::array{cpu, memory, bridge, gpu, nic, port, nvswitch}, text);
}

LinkKind link_kind(const std::string& text) {
  return kind_named(std::array{LinkKind::memory, LinkKind::socket, LinkKind::pcie, LinkKind::c2c,
                               LinkKind::nvlink, LinkKind::xgmi, LinkKind::wire},
                    text);
}

Json json_of(const Node& node) {
  Json json = {{"node", name(node)}};
  if (!node.label.empty()) json["label"] = node.label;
  if (!node.pci.empty()) json["pci"] = node.pci;
  if (node.package >= 0) json["package"] = node.package;
  if (node.rdma) json["rdma"] = true;
  if (!node.details.empty()) json["details"] = node.details;
  return json;
}

Json json_of(const Machine& machine, const Link& link) {
  Json json = {{"link", name(link.kind)},
               {"a", name(machine.node(link.a))},
               {"b", name(machine.node(link.b))},
               {"bandwidth_gbs", link.bandwidth},
               {"latency_us", link.latency}};
  if (link.count != 1) json["count"] = link.count;
  if (link.assumed) json["assumed"] = true;
  return json;
}

/// On one line. Names may have any bytes, JSON only those of UTF-8: a mark takes the place of others.
std::string json_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// One object a line: diffs of two machines show what differs.
void append_rows(std::string& text, const char* key, const std::vector<Json>& rows) {
  text += fmt::format(",\n \"{}\": [", key);
  for (std::size_t i = 0; i < rows.size(); ++i) text += (i == 0 ? "\n  " : ",\n  ") + json_line(rows[i]);
  text += "\n ]";
}

/// The nodes and links, which make up a machine's identity.
std::string body(const Machine& machine) {
  std::string text = fmt::format(" \"nvlink_machines\": {}", machine.nvlink_machines);
  std::vector<Json> rows;
  for (const Node& node : machine.nodes) rows.push_back(json_of(node));
  append_rows(text, "nodes", rows);
  rows.clear();
  for (const Link& link : machine.links) rows.push_back(json_of(machine, link));
  append_rows(text, "links", rows);
  return text;
}

/// nlohmann would cut any number to fit.
int whole_number(const Given& json, const char* key) {
  constexpr double most = 1e9;
  const Given& value = json.at(key);
  if (!value.is_number_integer() || std::abs(value.get<double>()) > most)
    refuse(fmt::format("\"{}\" is no whole number up to {:.0f}", key, most));
  return value.get<int>();
}

int whole_number(const Given& json, const char* key, int otherwise) {
  return json.contains(key) ? whole_number(json, key) : otherwise;
}

Node node_from(const Given& json) {
  const auto named = json.at("node").get<std::string>();
  const auto digits = named.find_first_of("0123456789");
  if (digits == std::string::npos || named.size() - digits > 6 ||
      named.find_first_not_of("0123456789", digits) != std::string::npos)
    refuse("a node is called \"" + named + "\", not for example gpu0");
  Node node{.kind = node_kind(named.substr(0, digits)), .index = std::stoi(named.substr(digits))};
  node.label = json.value("label", "");
  if (const auto told = json.value("pci", ""); !told.empty()) {
    node.pci = pci_address(told);
    if (node.pci.empty()) refuse("\"" + told + "\" is no PCI address");
  }
  node.package = whole_number(json, "package", -1);
  node.rdma = json.value("rdma", false);
  if (json.contains("details")) node.details = json["details"].get<decltype(node.details)>();
  return node;
}

Link link_from(const Given& json, const std::map<std::string, NodeId>& named) {
  const auto end = [&](const char* key) {
    const auto wanted = json.at(key).get<std::string>();
    const auto at = named.find(wanted);
    if (at == named.end()) refuse("a link ends at \"" + wanted + "\", which is no node");
    return at->second;
  };
  return {.a = end("a"),
          .b = end("b"),
          .kind = link_kind(json.at("link").get<std::string>()),
          .bandwidth = json.at("bandwidth_gbs").get<double>(),
          .latency = json.at("latency_us").get<double>(),
          .count = whole_number(json, "count", 1),
          .assumed = json.value("assumed", false)};
}

/// Calls `read` with all rows of a list, and says of a mistake in which one it is.
template <class Read>
void for_each(const Given& json, const char* list, Read read) {
  // Whatever else stands there would count as a list of one, or of none.
  const Given& rows = json.at(list);
  if (!rows.is_array()) refuse(fmt::format("\"{}\" is no list", list));
  int number = 0;
  for (const Given& row : rows) {
    ++number;
    try {
      read(row);
    } catch (const std::exception& error) {
      refuse(fmt::format("row {} of \"{}\": {}", number, list, error.what()));
    }
  }
}

Machine machine_from(const Given& json) {
  if (const auto version = whole_number(json, "tutti_topology"); version != format_version)
    refuse(fmt::format("version {}; this program reads {}", version, format_version));
  Machine machine;
  machine.name = json.value("name", "");
  machine.nvlink_machines = whole_number(json, "nvlink_machines", 1);
  std::map<std::string, NodeId> named;
  for_each(json, "nodes", [&](const Given& row) {
    machine.nodes.push_back(node_from(row));
    named.emplace(name(machine.nodes.back()), static_cast<NodeId>(machine.nodes.size()) - 1);
  });
  for_each(json, "links", [&](const Given& row) { machine.links.push_back(link_from(row, named)); });
  if (json.contains("unseen")) machine.unseen = json["unseen"].get<std::vector<std::string>>();
  return machine;
}

}  // namespace

std::string to_json(const Machine& machine) {
  std::string text =
      fmt::format("{{\"tutti_topology\": {},\n \"name\": {},\n", format_version, json_line(machine.name));
  text += body(machine);
  if (!machine.unseen.empty()) {
    std::vector<Json> rows(machine.unseen.begin(), machine.unseen.end());
    append_rows(text, "unseen", rows);
  }
  return text + "}\n";
}

Machine from_json(std::string_view text) {
  Machine machine;
  try {
    if (nests_too_deep(text)) refuse(fmt::format("nests deeper than {}", most_json_depth));
    machine = machine_from(Given::parse(text));
  } catch (const std::exception& error) {
    throw Error(ErrorCode::invalid_argument, std::string("topology in JSON: ") + error.what());
  }
  check(machine);
  return machine;
}

std::uint64_t hash(const Machine& machine) { return fnv1a(body(machine)); }

std::uint64_t hash_of_parts(const Machine& machine) {
  // Display controllers count as GPUs where a driver computes on them, and bridges where they lead to such.
  const auto is_always_seen = [](const Node& node) {
    const std::string kind = detail(node, "class");
    const bool by_driver = kind.starts_with("0x03") && !kind.starts_with("0x0302");
    return !node.pci.empty() && node.kind != NodeKind::bridge && !by_driver;
  };
  std::set<std::string> parts;
  for (const Node& node : machine.nodes) {
    if (node.kind == NodeKind::cpu)
      parts.insert(json_line(json_of(node)));
    else if (is_always_seen(node))
      parts.insert(fmt::format("{} {}", name(node.kind), node.pci));
  }
  return fnv1a(fmt::format("{}", fmt::join(parts, "\n")));
}

}  // namespace tutti::topology
