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
  int blocks = GpuOptions{}.blocks;  ///< minCTAs, maxCTAs
  std::string name;                  ///< commName, for the log
};

/// The environment over `given`, over NCCL's defaults, which are those of a part, too: only where nothing was
/// given, nullptr, it is as its parent, `inherited`. Throws Failure(ncclInvalidArgument) for a config that
/// was not initialised and for values out of their range.
Config resolve(const ncclConfig_t* given, const Config& inherited);
/// With what NCCL_COMM_BLOCKING, NCCL_MIN_CTAS and NCCL_MAX_CTAS say.
Config default_config();

/// Options::from_environment, but waits last until the program's own watchdog sees to them: 30 minutes unless
/// TUTTI_TIMEOUT says otherwise. NCCL_SOCKET_IFNAME says which interface where TUTTI_INTERFACE does not.
Options options_from_environment();
/// Where ranks meet: at that interface, else at that of the default route, else at any that is no loopback,
/// since nobody says whether they are all on this host.
UniqueId new_id();

}  // namespace tutti::nccl
