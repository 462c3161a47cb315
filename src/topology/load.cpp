#include "topology/load.hpp"

#include <fmt/format.h>

#include <filesystem>

#include <tutti/error.hpp>

#include "base/read_file.hpp"
#include "topology/builtin.hpp"
#include "topology/discover.hpp"
#include "topology/hwloc.hpp"
#include "topology/json.hpp"
#include "topology/nccl.hpp"
#include "topology/xml.hpp"

namespace tutti::topology {

namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("topology \"{}\": {}", what, why));
}

Machine machine_from(std::string_view text, const std::string& name) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const auto start = text.find_first_not_of(" \t\r\n");
  const char first = start == std::string_view::npos ? '\0' : text[start];
  if (first == '{') return from_json(text);
  if (first != '<') refuse(name, "is neither JSON nor XML");
#if TUTTI_HAVE_EXPAT
  const XmlElement root = parse_xml(text);
  if (root.name != "topology") return from_nccl_xml(root);
  Machine machine = from_hwloc_xml(root);
  if (machine.count(NodeKind::port) > 0)
    machine.unseen.emplace_back(
        "the rates of network ports, which hwloc does not tell; taken: their PCIe links'");
  return machine;
#else
  throw Error(ErrorCode::unsupported,
              fmt::format("topology \"{}\": this build of tutti reads no XML; install "
                          "libexpat1-dev and build anew",
                          name));
#endif
}

std::string list_of_builtins() {
  std::string text;
  for (const std::string& name : builtin_names()) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

Machine from_text(std::string_view text, const std::string& name) {
  Machine machine = machine_from(text, name);
  if (machine.name.empty()) machine.name = name;
  return machine;
}

Machine load(const std::string& name_or_file) {
  if (auto known = builtin(name_or_file)) return *std::move(known);
  if (name_or_file == "this") return discover();
  std::error_code none;
  if (!std::filesystem::exists(name_or_file, none))
    refuse(name_or_file, "is no file, and no known machine; those are: this, " + list_of_builtins());
  return from_text(read_file("topology", name_or_file), std::filesystem::path(name_or_file).stem().string());
}

}  // namespace tutti::topology
