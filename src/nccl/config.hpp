/// \file
/// What a communicator is to be like: from ncclConfig_t and the environment.
#pragma once

#include <string>

#include <tutti/gpu.hpp>
#include <tutti/options.hpp>
#include <tutti/unique_id.hpp>

#include "nccl/abi.hpp"

namespace tutti::nccl {

struct Config {
  bool blocking = true;
  int blocks = GpuOptions{}.blocks;  ///< maxCTAs, NCCL_MAX_CTAS
  std::string name;                  ///< commName, for the log
};

/// NCCL_MAX_CTAS over `given`, over `inherited`; nullptr: nothing was given. Throws
/// Failure(ncclInvalidArgument) for a config that was not initialised and for values out of their range.
Config resolve(const ncclConfig_t* given, const Config& inherited);
/// With NCCL_MAX_CTAS.
Config default_config();

/// Options::from_environment, but waits last until the program's own watchdog sees to them: 30 minutes unless
/// TUTTI_TIMEOUT says otherwise. NCCL_SOCKET_IFNAME says which interface where TUTTI_INTERFACE does not.
Options options_from_environment();
/// Where ranks meet: at that interface, else at that of the default route, else at any that is no loopback,
/// since nobody says whether they are all on this host.
UniqueId new_id();

}  // namespace tutti::nccl
