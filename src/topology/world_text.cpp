#include <fmt/format.h>

#include "topology/text.hpp"

namespace tutti::topology {

namespace {

std::string list(const std::vector<Rank>& ranks) {
  constexpr std::size_t most = 16;
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < most; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : " ", ranks[i]);
  return ranks.size() > most ? text + fmt::format(" ... ({} ranks)", ranks.size()) : text;
}

std::string seat_text(const World& world, Rank rank) {
  const Machine& machine = world.machine(rank);
  const Seat& seat = world.seat(rank);
  return fmt::format("  rank {}: {}, {}\n", rank, name(machine.node(seat.device)),
                     seat.port == no_node
                         ? "no network port"
                         : name(machine.node(seat.port)) + " " + machine.node(seat.port).label);
}

}  // namespace

std::string world_text(const World& world) {
  std::string text = fmt::format("{} ranks on {} hosts of {} kinds\n", world.size(), world.hosts.size(),
                                 world.machines.size());
  const auto hosts = ranks_by_host(world);
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const Host& here = world.hosts[host];
    text += fmt::format("host {}: {}{}\n", host, world.machines[static_cast<std::size_t>(here.machine)].name,
                        here.nvlink_domain.empty() ? "" : ", NVLink domain " + here.nvlink_domain);
    for (const Rank rank : hosts[host]) text += seat_text(world, rank);
  }
  for (const auto& rail : rail_groups(world)) text += "rail: " + list(rail) + "\n";
  for (const auto& domain : nvlink_domains(world)) text += "NVLink joins: " + list(domain) + "\n";
  return text;
}

}  // namespace tutti::topology
