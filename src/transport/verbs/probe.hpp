/// \file
/// Whether an address of a port works, found out by using it.
#pragma once

#include <string>

#include "transport/verbs/choice.hpp"
#include "transport/verbs/options.hpp"

namespace tutti::transport::verbs {

/// Sends a message from the port to itself, through `gid`. Nothing when it came, else why not. Waits 1.5 s
/// at most. Ports that connect by other means (iWARP) pass unproved. Throws Error(invalid_argument) where the
/// options ask for a partition that there is not.
std::string prove_gid(Verbs& verbs, const ChosenPort& port, const ChosenGid& gid,
                      const VerbsOptions& options);

/// The first address of the port that proves itself. Throws Error(system) that lists what was tried, and why
/// each failed; Error(invalid_argument) where the options ask for one that there is not, or as prove_gid.
ChosenGid working_gid(Verbs& verbs, const ChosenPort& port, const VerbsOptions& options);

}  // namespace tutti::transport::verbs
