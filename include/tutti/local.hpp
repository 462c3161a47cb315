/// \file
/// Ranks as threads of one process.
#pragma once

#include <functional>

#include <tutti/communicator.hpp>
#include <tutti/options.hpp>

namespace tutti {

/// Runs `body` on `ranks` threads, each with its own communicator of one group, and joins them. When bodies
/// throw, the others' communicators fail with Error(peer_lost), and the exception of the first rank that
/// threw one of its own is rethrown here. Throws Error(system) when a thread cannot be started,
/// Error(invalid_argument) for less than one rank. For tests, examples and programs that share memory between
/// ranks. Any thread may call it, several at once.
void run_local(int ranks, const std::function<void(Communicator&)>& body,
               const Options& options = Options::from_environment());

}  // namespace tutti
