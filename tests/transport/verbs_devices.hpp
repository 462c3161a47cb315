/// \file
/// The real RDMA devices of this machine, as tests use them.
#pragma once

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "verbs_ranks.hpp"

namespace tutti::transport::testing {

/// The devices with an active port, as nodes with `rails` each: in the lab rx<node>_<rail>, elsewhere any.
inline std::vector<std::vector<std::string>> device_nodes(int rails) {
  std::map<std::string, std::vector<std::string>> by_node;
  for (const auto& device : verbs::discover(*verbs::real_verbs()))
    if (!device.ports.empty() && device.ports[0].active && device.ports[0].layer != verbs::LinkLayer::iwarp)
      by_node[device.name.substr(0, device.name.find('_'))].push_back(device.name);
  std::vector<std::vector<std::string>> nodes;
  for (auto& [node, devices] : by_node) {
    if (devices.size() < static_cast<std::size_t>(rails)) continue;
    devices.resize(static_cast<std::size_t>(rails));
    nodes.push_back(devices);
  }
  return nodes;
}

/// A hardware counter of a device, as the kernel shows it; -1 where there is none.
inline long counter(const std::string& device, const std::string& name) {
  long value = -1;
  std::ifstream("/sys/class/infiniband/" + device + "/ports/1/hw_counters/" + name) >> value;
  return value;
}
/// Counters of what meets an empty receive queue: of Soft-RoCE, then of adapters.
inline constexpr std::array not_ready_counters{"rcvd_rnr_err", "send_rnr_err", "rnr_nak_retry_err",
                                               "out_of_buffer"};
/// Each of the first devices of these nodes has one of these counters: elsewhere zeros say nothing.
inline bool counts_not_ready(const std::vector<std::vector<std::string>>& nodes) {
  return std::ranges::all_of(nodes, [](const auto& node) {
    return std::ranges::any_of(not_ready_counters,
                               [&](const char* name) { return counter(node[0], name) >= 0; });
  });
}
/// How often an immediate met an empty receive queue, on the first devices of these nodes.
inline long receivers_not_ready(const std::vector<std::vector<std::string>>& nodes) {
  long sum = 0;
  for (const auto& node : nodes)
    for (const auto* name : not_ready_counters) sum += std::max(0L, counter(node[0], name));
  return sum;
}

/// Options of a rank; more ranks than nodes share devices.
inline verbs::VerbsOptions device_options(Rank rank, int rails, verbs::VerbsOptions options = {}) {
  const auto nodes = device_nodes(rails);
  options.devices = nodes.at(static_cast<std::size_t>(rank) % nodes.size());
  return options;
}

/// Throws NotOffered where there are no devices.
inline Transports device_ranks(int ranks, int rails, const verbs::VerbsOptions& options = {}) {
  if (device_nodes(rails).empty())
    throw NotOffered(rails == 1 ? "no RDMA device" : "no node with several RDMA devices");
  return verbs_ranks(ranks, same(verbs::real_verbs()),
                     [&](Rank rank) { return device_options(rank, rails, options); });
}

}  // namespace tutti::transport::testing
