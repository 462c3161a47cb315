#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include <tutti/error.hpp>

#include "topology/discover.hpp"
#include "topology/exchange.hpp"
#include "topology/host.hpp"

namespace tutti::topology {

namespace {

std::string host_bytes() {
  const HostId id = this_host();
  return {reinterpret_cast<const char*>(id.data()), id.size()};
}

/// The NUMA domain that this thread runs in at the moment.
NodeId near_cpu(const Machine& machine) {
  unsigned cpu = 0, domain = 0;
  const bool told = ::getcpu(&cpu, &domain) == 0;
  const auto cpus = machine.all(NodeKind::cpu);
  const auto at = std::ranges::find_if(cpus, [&](NodeId id) {
    const auto& details = machine.node(id).details;
    return told && details.contains("numaid") && details.at("numaid") == std::to_string(domain);
  });
  return at != cpus.end() ? *at : cpus.front();
}

}  // namespace

Place this_place(int gpu) {
  Discovery seen = discover_all();
  Place place{.machine = std::move(seen.machine),
              .host = host_bytes(),
              .nvlink_domain = std::move(seen.nvlink_domain)};
  place.device = gpu < 0 ? near_cpu(place.machine) : place.machine.find(fmt::format("gpu{}", gpu));
  if (place.device == no_node)
    throw Error(ErrorCode::invalid_argument, fmt::format("there is no GPU {} on this machine; it has {}", gpu,
                                                         place.machine.count(NodeKind::gpu)));
  return place;
}

}  // namespace tutti::topology
