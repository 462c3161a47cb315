#include "topo/commands.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include <tutti/error.hpp>

#include "topology/builtin.hpp"
#include "topology/json.hpp"
#include "topology/load.hpp"
#include "topology/nccl.hpp"
#include "topology/paths.hpp"
#include "topology/svg.hpp"
#include "topology/text.hpp"

namespace tutti::topo {

namespace {

using topology::Machine;

std::string help_on_topologies() {
  std::string text =
      "this (default): this machine; a file: tutti's JSON, NCCL's or RCCL's XML, hwloc's XML; or one of";
  for (const std::string& name : topology::builtin_names()) text += " " + name;
  return text;
}

void show(const std::string& topology) {
  const Machine machine = topology::load(topology);
  fmt::print("{}: {} GPUs, {} network ports\n\n{}\n", machine.name, machine.count(topology::NodeKind::gpu),
             machine.count(topology::NodeKind::port), topology::tree(machine));
  fmt::print("ports\n{}\npaths\n{}", topology::affinity_table(machine), topology::path_matrix(machine));
}

void write(const std::string& topology, const std::string& format) {
  const Machine machine = topology::load(topology);
  const auto text = format == "json"   ? topology::to_json(machine)
                    : format == "nccl" ? topology::to_nccl_xml(machine)
                                       : topology::to_svg(machine);
  fmt::print("{}", text);
}

topology::NodeId find(const Machine& machine, const std::string& text) {
  const auto id = machine.find(text);
  if (id != topology::no_node) return id;
  std::string names;
  for (const auto& node : machine.nodes) names += (names.empty() ? "" : ", ") + topology::name(node);
  throw Error(ErrorCode::invalid_argument,
              "\"" + text + "\" is no device of " + machine.name + "; it has " + names);
}

void paths(const std::string& topology, const std::string& from, const std::string& to) {
  const Machine machine = topology::load(topology);
  const auto path = topology::path(machine, find(machine, from), find(machine, to));
  if (path.kind == topology::PathClass::none) {
    fmt::print("none\n");
    return;
  }
  fmt::print("{}: {} links, {:.4g} GB/s, {:.4g} us\n{}\n", topology::name(path.kind), path.hops(),
             path.bandwidth, path.latency, topology::describe(machine, path));
  for (const auto id : path.links) {
    const auto& link = machine.link(id);
    fmt::print("  {} - {}: {} x{}, {:.4g} GB/s{}, {:.4g} us\n", topology::name(machine.node(link.a)),
               topology::name(machine.node(link.b)), topology::name(link.kind), link.count, link.bandwidth,
               link.assumed ? " (a guess)" : "", link.latency);
  }
}

}  // namespace

void add_show(CLI::App& app) {
  auto topology = std::make_shared<std::string>("this");
  auto* command =
      app.add_subcommand("show", "Shows a machine: the tree, each GPU's network ports, all paths");
  command->add_option("topology", *topology, help_on_topologies());
  command->callback([topology] { show(*topology); });
}

void add_export(CLI::App& app) {
  auto topology = std::make_shared<std::string>("this");
  auto format = std::make_shared<std::string>("json");
  auto* command = app.add_subcommand("export", "Writes a machine to stdout");
  command->add_option("topology", *topology, help_on_topologies());
  command->add_option("--format", *format, "json (default), nccl (for NCCL_TOPO_FILE) or svg (a drawing)")
      ->check(CLI::IsMember({"json", "nccl", "svg"}));
  command->callback([topology, format] { write(*topology, *format); });
}

void add_paths(CLI::App& app) {
  auto topology = std::make_shared<std::string>("this");
  auto from = std::make_shared<std::string>(), to = std::make_shared<std::string>();
  auto* command = app.add_subcommand("paths", "Shows the path from a device to another");
  command->add_option("from", *from, "A device: gpu0, port2, a PCI address, mlx5_3")->required();
  command->add_option("to", *to, "Another one")->required();
  command->add_option("--topology", *topology, help_on_topologies());
  command->callback([topology, from, to] { paths(*topology, *from, *to); });
}

}  // namespace tutti::topo
