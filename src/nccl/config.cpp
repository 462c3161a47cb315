#include "nccl/config.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "nccl/result.hpp"

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

}  // namespace

Config resolve(const ncclConfig_t* given, const Config& inherited) {
  Config config = inherited;
  if (given == nullptr) return config;
  const ncclConfig_t all = complete(*given);
  require_within(all.blocking, 0, 1, "blocking");
  require_within(all.minCTAs, 1, INT_MAX, "minCTAs");
  require_within(all.maxCTAs, 1, INT_MAX, "maxCTAs");
  require_within(all.cgaClusterSize, 0, 8, "cgaClusterSize");
  require_within(all.splitShare, 0, 1, "splitShare");
  require_within(all.shrinkShare, 0, 1, "shrinkShare");
  require_within(all.CTAPolicy, 0, 2, "CTAPolicy");
  if (all.minCTAs != undefined_int && all.maxCTAs != undefined_int && all.minCTAs > all.maxCTAs)
    throw Failure(ncclInvalidArgument, "config.minCTAs is more than config.maxCTAs");
  if (all.blocking != undefined_int) config.blocking = all.blocking != 0;
  if (all.minCTAs != undefined_int) config.blocks = std::clamp(all.minCTAs, config.blocks, most_blocks);
  if (all.maxCTAs != undefined_int) config.blocks = std::min(all.maxCTAs, most_blocks);
  if (all.commName != nullptr) config.name = all.commName;
  return config;
}

Config default_config() {
  Config config;
  if (const char* most = std::getenv("NCCL_MAX_CTAS"); most != nullptr)
    config.blocks = std::clamp(std::atoi(most), 1, most_blocks);  // NOLINT(cert-err34-c): as NCCL reads it
  return config;
}

Options options_from_environment() {
  Options options = Options::from_environment();
  if (std::getenv("TUTTI_TIMEOUT") == nullptr) options.timeout = std::chrono::minutes(30);
  const char* interface = std::getenv("NCCL_SOCKET_IFNAME");
  if (options.interface.empty() && interface != nullptr && std::strpbrk(interface, "^,") == nullptr)
    options.interface = interface + (*interface == '=' ? 1 : 0);
  return options;
}

}  // namespace tutti::nccl
