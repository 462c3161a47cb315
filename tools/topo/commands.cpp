#include "topo/commands.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include <tutti/error.hpp>

#include "topology/builtin.hpp"
#include "topology/choice.hpp"
#include "topology/json.hpp"
#include "topology/load.hpp"
#include "topology/nccl.hpp"
#include "topology/paths.hpp"
#include "topology/svg.hpp"
#include "topology/text.hpp"
#include "topology/world.hpp"

namespace tutti::topo {

namespace {

using topology::Machine;

void show(const std::string& topology) {
  const Machine machine = topology::load(topology);
  fmt::print("{}: {} GPUs, {} network ports\n\n{}\n", machine.name, machine.count(topology::NodeKind::gpu),
             machine.count(topology::NodeKind::port), topology::tree(machine));
  fmt::print("ports\n{}\n", topology::affinity_table(machine));
  if (const std::string rings = topology::ring_table(machine); !rings.empty())
    fmt::print("rings\n{}\n", rings);
  fmt::print("paths\n{}", topology::path_matrix(machine));
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
  const auto first = find(machine, from), second = find(machine, to);
  const auto path = topology::path(machine, first, second);
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

struct Question {
  std::string topology = "this", memory = "gpu";
  int nodes = 1, ranks = 0;
  Rank from = 0, to = 1;
};

void means(const Question& question) {
  const auto world =
      topology::uniform_world(topology::load(question.topology), question.nodes, question.ranks);
  const topology::Rules rules{.memory =
                                  question.memory == "cpu" ? topology::Memory::cpu : topology::Memory::gpu};
  const auto choice = topology::choose(world, question.from, question.to, rules);
  fmt::print("{}", topology::describe(world, question.from, question.to, choice));
}

}  // namespace

std::string help_on_topologies() {
  std::string text =
      "this (default): this machine; a file: tutti's JSON, NCCL's or RCCL's XML, hwloc's XML; or one of";
  for (const std::string& name : topology::builtin_names()) text += " " + name;
  return text;
}

void add_show(CLI::App& app, Command& chosen) {
  auto topology = std::make_shared<std::string>("this");
  auto* command =
      app.add_subcommand("show", "Shows a machine: the tree, each GPU's network ports, rings, all paths");
  command->add_option("topology", *topology, help_on_topologies());
  command->callback([topology, &chosen] { chosen = [topology] { show(*topology); }; });
}

void add_export(CLI::App& app, Command& chosen) {
  auto topology = std::make_shared<std::string>("this");
  auto format = std::make_shared<std::string>("json");
  auto* command = app.add_subcommand("export", "Writes a machine to stdout");
  command->add_option("topology", *topology, help_on_topologies());
  command->add_option("--format", *format, "json (default), nccl (for NCCL_TOPO_FILE) or svg (a drawing)")
      ->check(CLI::IsMember({"json", "nccl", "svg"}));
  command->callback(
      [topology, format, &chosen] { chosen = [topology, format] { write(*topology, *format); }; });
}

void add_paths(CLI::App& app, Command& chosen) {
  auto topology = std::make_shared<std::string>("this");
  auto from = std::make_shared<std::string>(), to = std::make_shared<std::string>();
  auto* command = app.add_subcommand("paths", "Shows the path from a device to another");
  command->add_option("from", *from, "A device: gpu0, port2, a PCI address, mlx5_3")->required();
  command->add_option("to", *to, "Another one")->required();
  command->add_option("--topology", *topology, help_on_topologies());
  command->callback(
      [topology, from, to, &chosen] { chosen = [topology, from, to] { paths(*topology, *from, *to); }; });
}

void add_means(CLI::App& app, Command& chosen) {
  auto question = std::make_shared<Question>();
  auto* command =
      app.add_subcommand("means", "Shows by what means two ranks talk, and why not by a better one");
  command->add_option("from", question->from, "A rank; ranks fill the GPUs of one machine after the other")
      ->required();
  command->add_option("to", question->to, "Another one")->required();
  command->add_option("--topology", question->topology, help_on_topologies());
  command->add_option("--nodes", question->nodes, "How many of these machines (default 1)")
      ->check(CLI::Range(1, 100'000));
  command->add_option("--ranks", question->ranks, "Ranks on each (default: one a GPU)")
      ->check(CLI::Range(0, 1024));
  command->add_option("--memory", question->memory, "Where the buffers are: gpu (default) or cpu")
      ->check(CLI::IsMember({"cpu", "gpu"}));
  command->callback([question, &chosen] { chosen = [question] { means(*question); }; });
}

}  // namespace tutti::topo
