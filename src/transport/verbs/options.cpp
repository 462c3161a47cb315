#include "transport/verbs/options.hpp"

#include <cmath>
#include <sstream>

#include "bootstrap/variables.hpp"

namespace tutti::transport::verbs {

namespace {

constexpr int most_retries_of_rxe = 6;
constexpr std::uint32_t rxe_vendors[] = {0, 0xffffff};

void read(const char* name, int& value, int low, int high) {
  if (const auto set = bootstrap::number(name, low, high)) value = *set;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');)
    if (!item.empty()) items.push_back(item);
  return items;
}

}  // namespace

VerbsOptions VerbsOptions::from_environment() {
  VerbsOptions options;
  if (const auto list = bootstrap::variable("TUTTI_VERBS_DEVICES")) options.devices = split(*list);
  read("TUTTI_VERBS_PORT", options.port, 1, 255);
  read("TUTTI_VERBS_GID_INDEX", options.gid_index, 0, 255);
  read("TUTTI_VERBS_PKEY_INDEX", options.pkey_index, 0, 65535);
  read("TUTTI_VERBS_SERVICE_LEVEL", options.service_level, 0, 15);
  read("TUTTI_VERBS_TRAFFIC_CLASS", options.traffic_class, 0, 255);
  read("TUTTI_VERBS_MTU", options.mtu, 256, 4096);
  read("TUTTI_VERBS_TIMEOUT", options.timeout, 1, 31);
  read("TUTTI_VERBS_RETRIES", options.retries, 0, 7);
  read("TUTTI_VERBS_CONNECTED_PEERS", options.connected_peers, 1, 1 << 20);
  if (options.mtu != 0 && (options.mtu & (options.mtu - 1)) != 0)
    bootstrap::refuse_variable("TUTTI_VERBS_MTU", "256, 512, 1024, 2048 or 4096");
  return options;
}

double retry_budget(int timeout, int retries) { return 4.096e-6 * std::ldexp(1.0, timeout) * (retries + 1); }

int effective_retries(int retries, std::uint32_t vendor) {
  for (const auto soft : rxe_vendors)
    if (vendor == soft && retries > most_retries_of_rxe) return most_retries_of_rxe;
  return retries;
}

}  // namespace tutti::transport::verbs
