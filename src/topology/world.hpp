/// \file
/// All ranks' machines, and where each rank sits. Identical machines are held once, so a thousand nodes of
/// one build are one Machine and a thousand small Hosts.
#pragma once

#include <string>
#include <vector>

#include <tutti/types.hpp>

#include "topology/machine.hpp"

namespace tutti::topology {

/// One machine that takes part.
struct Host {
  int machine = 0;  ///< index in World::machines
  /// GPUs of hosts whose domains are equal and not empty reach each other over NVLink: their machines'
  /// `nvswitch` nodes are one switch (a rack of NVL72).
  std::string nvlink_domain{};

  bool operator==(const Host&) const = default;
};

/// Where a rank sits.
struct Seat {
  int host = 0;             ///< index in World::hosts
  NodeId device = no_node;  ///< the GPU it drives, else the cpu node it runs on, in the host's machine
  NodeId port = no_node;    ///< the port it uses towards other hosts; no_node: there is none

  bool operator==(const Seat&) const = default;
};

struct World {
  std::vector<Machine> machines{};  ///< distinct ones
  std::vector<Host> hosts{};
  std::vector<Seat> seats{};  ///< by rank

  [[nodiscard]] int size() const { return static_cast<int>(seats.size()); }
  [[nodiscard]] const Seat& seat(Rank rank) const { return seats[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Host& host(Rank rank) const { return hosts[static_cast<std::size_t>(seat(rank).host)]; }
  [[nodiscard]] const Machine& machine(Rank rank) const {
    return machines[static_cast<std::size_t>(host(rank).machine)];
  }
};

/// No world has more: it would take gigabytes to describe where they sit.
inline constexpr int most_ranks = 1 << 20;

/// What ranks drive, or run on: the GPUs, or the cpu nodes of a machine that has none.
std::vector<NodeId> devices_of_ranks(const Machine& machine);

/// Adds `hosts` machines of one kind, with a rank on each of `devices_of_ranks` (`ranks_per_host` == 0), or
/// with so many ranks each, dealt to these in blocks. Every `machine.nvlink_machines` consecutive ones share
/// an NVLink domain, if that is more than one. Throws Error(invalid_argument).
void add_hosts(World& world, const Machine& machine, int hosts, int ranks_per_host = 0);

/// A world of one kind of machine.
World uniform_world(const Machine& machine, int hosts, int ranks_per_host = 0);

/// Sets every seat's port: ports_of (affinity.hpp) for the devices that have ranks.
void assign_ports(World& world);

/// The ranks of each host, ascending.
std::vector<std::vector<Rank>> ranks_by_host(const World& world);

/// Group k holds the k-th rank of every host that has so many, in the order of the ports they use: ranks of a
/// group are on one rail where the hosts are of one kind. For hierarchical algorithms: the first phase is
/// among a host's ranks, the second one within each group.
std::vector<std::vector<Rank>> rail_groups(const World& world);

/// Ranks that reach each other over NVLink or xGMI alone: on GPUs of one host that such links join, or of
/// several hosts with one NVLink domain. GPUs without such links are in none.
std::vector<std::vector<Rank>> nvlink_domains(const World& world);

}  // namespace tutti::topology
