#include "doctor/rdma.hpp"

#ifdef TUTTI_HAVE_VERBS
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <tutti/error.hpp>

#include "bootstrap/frame.hpp"
#include "bootstrap/variables.hpp"
#include "transport/verbs/choice.hpp"
#include "transport/verbs/connection_manager.hpp"
#include "transport/verbs/probe.hpp"
#endif

namespace tutti::doctor {

#ifdef TUTTI_HAVE_VERBS
namespace {

namespace verbs = transport::verbs;

RdmaPort plain(const verbs::Device& device, const verbs::Port& port) {
  RdmaPort plain{.device = device.name,
                 .number = port.number,
                 .layer = std::string(verbs::name(port.layer)),
                 .active = port.active,
                 .gigabits = port.gigabits,
                 .mtu = port.mtu,
                 .lid = port.lid,
                 .numa_node = device.numa_node,
                 .pci_path = device.pci_path,
                 .gids = {}};
  for (const auto& gid : port.gids)
    plain.gids.push_back({.index = gid.index,
                          .address = verbs::to_string(gid),
                          .type = port.layer != verbs::LinkLayer::roce ? ""
                                  : gid.roce_v2                        ? "RoCE v2"
                                                                       : "RoCE v1",
                          .link_local = gid.is_link_local()});
  return plain;
}

}  // namespace

void read_devices(RdmaFacts& facts) {
  facts.built = true;
  const auto table = verbs::real_verbs();
  const auto devices = verbs::discover(*table);
  for (const auto& device : devices)
    for (const auto& port : device.ports) facts.ports.push_back(plain(device, port));
  if (std::ranges::any_of(facts.ports, [](const RdmaPort& port) { return port.layer == "iWARP"; }))
    facts.why_no_iwarp = verbs::ConnectionManager::why_unavailable();
  try {
    const auto options = verbs::VerbsOptions::from_environment();
    std::string choice;
    for (const auto& chosen : verbs::choose_ports(devices, options, -1, facts.why_none)) {
      const auto gid = verbs::working_gid(*table, chosen, options);
      choice += fmt::format("{}{} port {}, GID {} {} ({})", choice.empty() ? "" : "; ", chosen.device.name,
                            chosen.port.number, gid.gid.index, verbs::to_string(gid.gid), gid.reason);
    }
    facts.choice = std::move(choice);  // all of them work, or tutti does without
  } catch (const Error& error) {
    facts.why_none = bootstrap::to_fault(error).text;
    const std::string forced = bootstrap::variable("TUTTI_TRANSPORT").value_or("verbs");
    facts.refused = error.code() == ErrorCode::invalid_argument && forced == "verbs";  // others use no RDMA
  }
}
#else
void read_devices(RdmaFacts& facts) { facts.built = false; }
#endif

}  // namespace tutti::doctor
