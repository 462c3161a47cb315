#include "doctor/network.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include <tutti/error.hpp>

namespace tutti::doctor {

namespace {

constexpr const char* name_an_interface =
    "name the interface that leads to the other machines: TUTTI_INTERFACE=eth1";

bool usable(const Nic& nic) {
  return nic.interface.up && !nic.interface.loopback && nic.hardware &&
         !topology::address_for_others(nic.interface).empty();
}

// Why ranks cannot use what was asked for; empty: they can.
std::string fault_of(const Nic* nic, const std::string& wanted) {
  if (nic == nullptr) return "does not exist, or has no address";
  if (!nic->interface.up) return "is down";
  const topology::Interface asked{.name = {}, .addresses = {wanted}};
  const bool named = nic->interface.name == wanted;
  if (topology::address_for_others(named ? nic->interface : asked).empty())
    return "is link-local, which other hosts cannot use";
  return {};
}

const Nic* find(const NetworkFacts& facts, const std::string& name_or_address) {
  const auto at = std::ranges::find_if(facts.nics, [&](const Nic& nic) {
    return nic.interface.name == name_or_address ||
           std::ranges::find(nic.interface.addresses, name_or_address) != nic.interface.addresses.end();
  });
  return at == facts.nics.end() ? nullptr : &*at;
}

std::string speed(const Nic& nic) {
  return nic.megabits ? fmt::format("{:g} Gb/s", static_cast<double>(*nic.megabits) / 1000) : "speed unknown";
}

Finding examine_nic(const Nic& nic) {
  constexpr long long fast = 10000;
  Finding finding{
      .area = "network",
      .what = fmt::format("{}: {}, MTU {}, {}{}", nic.interface.name, fmt::join(nic.interface.addresses, " "),
                          nic.mtu, speed(nic), nic.interface.up ? "" : ", down")};
  finding.data = {{"interface", nic.interface.name},
                  {"addresses", nic.interface.addresses},
                  {"up", nic.interface.up},
                  {"mtu", nic.mtu},
                  {"megabits", nullptr}};
  if (nic.megabits) finding.data["megabits"] = *nic.megabits;
  if (!nic.interface.up) finding.level = Level::note;
  if (nic.interface.up && nic.megabits.value_or(0) >= fast && nic.mtu <= 1500) {
    finding.level = Level::note;
    finding.remedy = fmt::format(
        "longer packets cost less time of processors, where all switches carry them: ip link set {} mtu 9000",
        topology::device_name(nic.interface.name));
  }
  return finding;
}

Finding examine_choice(const NetworkFacts& facts) {
  const bool by_wish = !facts.wanted.empty() && facts.wanted != "default";
  const Nic* chosen = find(facts, by_wish ? facts.wanted : facts.default_route);
  Finding finding{.area = "network"};
  finding.data = {{"chosen", chosen == nullptr ? "" : chosen->interface.name},
                  {"default_route", facts.default_route}};
  if (const std::string fault = fault_of(chosen, by_wish ? facts.wanted : facts.default_route);
      !fault.empty()) {
    finding.level = by_wish ? Level::error : Level::note;
    finding.what = by_wish ? fmt::format("interface {}, which was asked for, {}", facts.wanted, fault)
                           : "there is no default route: ranks of several machines do not find each other";
    finding.remedy = name_an_interface;
    return finding;
  }
  finding.what = fmt::format("ranks of several machines reach each other by {}, {}", chosen->interface.name,
                             by_wish ? "which was asked for" : "the way of the default route");
  const auto fastest = std::ranges::max_element(
      facts.nics, {}, [](const Nic& nic) { return usable(nic) ? nic.megabits.value_or(0) : -1; });
  if (!by_wish && chosen->megabits && fastest->megabits.value_or(0) > *chosen->megabits && usable(*fastest)) {
    finding.level = Level::warning;
    finding.what += fmt::format("; {} is faster ({} against {})", fastest->interface.name, speed(*fastest),
                                speed(*chosen));
    finding.remedy =
        fmt::format("where it leads to the other machines too: TUTTI_INTERFACE={}", fastest->interface.name);
  }
  return finding;
}

}  // namespace

NetworkFacts read_network(const Root& root, const std::string& wanted) {
  NetworkFacts facts{.nics = {}, .default_route = {}, .wanted = wanted};
  for (auto& interface : topology::interfaces()) {
    const std::string entry = "/sys/class/net/" + topology::device_name(interface.name);
    Nic nic{.interface = std::move(interface),
            .mtu = static_cast<int>(root.number(entry + "/mtu").value_or(0)),
            .megabits = root.number(entry + "/speed"),
            .hardware = root.exists(entry + "/device") || root.exists(entry + "/bonding")};
    if (nic.megabits.value_or(0) <= 0) nic.megabits.reset();
    facts.nics.push_back(std::move(nic));
  }
  if (const std::string device = topology::device_of(wanted);
      find(facts, wanted) == nullptr && !device.empty())
    facts.wanted = device;
  try {
    facts.default_route = topology::default_route();
  } catch (const Error&) {  // there is none
    facts.default_route.clear();
  }
  return facts;
}

Findings examine(const NetworkFacts& facts) {
  Findings findings;
  for (const Nic& nic : facts.nics)
    if (!nic.interface.loopback) findings.push_back(examine_nic(nic));
  findings.push_back(examine_choice(facts));
  return findings;
}

}  // namespace tutti::doctor
