/// \file
/// Ranks on this machine without a launcher.
#pragma once

#include <optional>

#include <tutti/options.hpp>

namespace tutti::doctor {

/// Starts `ranks` children of this process and waits for them: in this process the worst exit status of
/// them, as Children does. In a child nothing; its environment then says which rank it is, as a launcher
/// would. Call it before anything makes threads. Throws Error(system).
std::optional<int> start_ranks(int ranks, const Options& options);

}  // namespace tutti::doctor
