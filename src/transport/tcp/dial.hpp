/// \file
/// Opening a connection to a peer's listener.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "base/deadline.hpp"
#include "base/file_descriptor.hpp"
#include "bootstrap/authenticate.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::transport::tcp {

/// Connects to a listener and waits for its verdict. Blocking, bounded by the deadline; an attempt that takes
/// long is given up and repeated, after `check`, which may throw. Empty: crossed, the peer's own connection
/// is on its way to this rank's inbox. Throws Error: timeout, unauthorized, system, peer_lost (nobody listens
/// there: it did before its address was given out, so a refusal is final).
std::optional<FileDescriptor> dial(const bootstrap::Endpoint& listener, const bootstrap::Secret& secret,
                                   const bootstrap::Hello& hello, const Deadline& deadline,
                                   const std::function<void()>& check = {});

}  // namespace tutti::transport::tcp
