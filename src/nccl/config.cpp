#include "nccl/config.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include <tutti/error.hpp>

#include "bootstrap/variables.hpp"
#include "nccl/result.hpp"
#include "topology/interface.hpp"

namespace tutti::nccl {

namespace {

constexpr int most_blocks = 128;

// The fields that there are; NCCL_CONFIG_UNDEF_* in the others.
ncclConfig_t complete(const ncclConfig_t& given) {
  constexpr std::size_t head = offsetof(ncclConfig_t, blocking);
  if (given.magic != config_magic || given.size < head)
    throw Failure(ncclInvalidArgument,
                  "the config is not initialised: begin with NCCL_CONFIG_INITIALIZER, then set fields");
  ncclConfig_t config{};
  config.blocking = config.cgaClusterSize = config.minCTAs = config.maxCTAs = undefined_int;
  config.splitShare = config.trafficClass = config.collnetEnable = config.CTAPolicy = undefined_int;
  config.shrinkShare = config.nvlsCTAs = config.nChannelsPerNetPeer = undefined_int;
  config.nvlinkCentricSched = undefined_int;
  std::memcpy(&config, &given, std::min(given.size, sizeof config));
  return config;
}

void require_within(int value, int least, int most, const char* field) {
  if (value != undefined_int && (value < least || value > most))
    throw Failure(ncclInvalidArgument, std::string("config.") + field + " is " + std::to_string(value) +
                                           "; it must be " + std::to_string(least) + " to " +
                                           std::to_string(most));
}

std::string text_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? "" : text;
}
// 0 where it says no number.
int number_in(const char* variable) {
  return std::atoi(text_in(variable).c_str());  // NOLINT(cert-err34-c): as NCCL reads it
}

Config with_environment(Config config) {
  const std::string blocking = text_in("NCCL_COMM_BLOCKING");
  if (blocking == "0" || blocking == "1") config.blocking = blocking == "1";
  if (const int least = number_in("NCCL_MIN_CTAS"); least > 0)
    config.blocks = std::clamp(least, config.blocks, most_blocks);
  if (const int most = number_in("NCCL_MAX_CTAS"); most > 0) config.blocks = std::min(most, most_blocks);
  return config;
}

bool is_one_of(std::string_view names, std::string_view interface, bool exactly) {
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    const std::string_view name = names.substr(at, end - at);
    if (!name.empty() && (exactly ? interface == name : interface.starts_with(name))) return true;
    at = end + 1;
  }
  return false;
}

// As NVIDIA's library reads NCCL_SOCKET_IFNAME: prefixes of names; names, if it begins with "="; any but
// those, if with "^". What no interface is like is returned as it is, to be refused by that name; nothing
// where there are no others.
std::string interface_like(std::string_view wanted) {
  std::string_view names = wanted;
  const auto begins_with = [&](char c) {
    const bool does = names.starts_with(c);
    if (does) names.remove_prefix(1);
    return does;
  };
  const bool others = begins_with('^'), exactly = begins_with('=');
  for (const auto& interface : topology::interfaces()) {
    if (!interface.up || topology::address_for_others(interface).empty()) continue;
    if (is_one_of(names, interface.name, exactly) != others && !(others && interface.loopback))
      return interface.name;
  }
  return others ? "" : std::string(wanted);
}

}  // namespace

Config resolve(const ncclConfig_t* given, const Config& inherited) {
  if (given == nullptr) return inherited;
  const ncclConfig_t all = complete(*given);
  require_within(all.blocking, 0, 1, "blocking");
  require_within(all.minCTAs, 1, INT_MAX, "minCTAs");
  require_within(all.maxCTAs, 1, INT_MAX, "maxCTAs");
  require_within(all.cgaClusterSize, 0, 8, "cgaClusterSize");
  require_within(all.splitShare, 0, 1, "splitShare");
  require_within(all.shrinkShare, 0, 1, "shrinkShare");
  require_within(all.CTAPolicy, 0, 2, "CTAPolicy");
  require_within(all.collnetEnable, 0, 1, "collnetEnable");
  require_within(all.nvlsCTAs, 1, INT_MAX, "nvlsCTAs");
  require_within(all.nChannelsPerNetPeer, 1, 64, "nChannelsPerNetPeer");
  require_within(all.nvlinkCentricSched, 0, 1, "nvlinkCentricSched");
  if (all.minCTAs != undefined_int && all.maxCTAs != undefined_int && all.minCTAs > all.maxCTAs)
    throw Failure(ncclInvalidArgument, "config.minCTAs is more than config.maxCTAs");
  Config config;
  if (all.blocking != undefined_int) config.blocking = all.blocking != 0;
  if (all.minCTAs != undefined_int) config.blocks = std::clamp(all.minCTAs, config.blocks, most_blocks);
  if (all.maxCTAs != undefined_int) config.blocks = std::min(all.maxCTAs, most_blocks);
  if (all.commName != nullptr) config.name = all.commName;
  return with_environment(std::move(config));
}

Config default_config() { return with_environment({}); }

Options options_from_environment() {
  Options options = Options::from_environment();
  if (!bootstrap::variable("TUTTI_TIMEOUT")) options.timeout = std::chrono::minutes(30);
  const std::string interface = text_in("NCCL_SOCKET_IFNAME");
  if (options.interface.empty() && !interface.empty()) options.interface = interface_like(interface);
  return options;
}

UniqueId new_id() {
  const std::string wanted = options_from_environment().interface;
  if (!wanted.empty()) return UniqueId::create(wanted);
  try {
    return UniqueId::create("default");
  } catch (const Error&) {  // networks need not lead elsewhere
    const std::string any = interface_like("^");
    return UniqueId::create(any.empty() ? topology::loopback_address() : any);
  }
}

}  // namespace tutti::nccl
