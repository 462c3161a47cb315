/// \file
/// Network interfaces, and the one that ranks of several machines use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.hpp"
#include "doctor/root.hpp"
#include "topology/interface.hpp"

namespace tutti::doctor {

struct Nic {
  topology::Interface interface {};
  int mtu = 0;
  std::optional<long long> megabits{};  ///< per second, as the driver says; none: it does not
  bool hardware = false;                ///< an adapter, or several as one: not a bridge, or a container's end
};

struct NetworkFacts {
  std::vector<Nic> nics{};      ///< with an address
  std::string default_route{};  ///< local address; empty: there is none
  std::string wanted{};         ///< TUTTI_INTERFACE or --interface; empty: the default route decides
};

NetworkFacts read_network(const Root& root, const std::string& wanted);
Findings examine(const NetworkFacts& facts);

}  // namespace tutti::doctor
