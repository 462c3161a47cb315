#include <fmt/format.h>
#include <sched.h>

#include <tutti/error.hpp>

#include "topology/assemble.hpp"
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
  return cpu_of_domain(machine, told ? std::to_string(domain) : "unknown");
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
