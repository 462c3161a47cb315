/// \file
/// Opening a connection to a peer's listener.
#pragma once

#include "base/fork_guard.hpp"
#include "bootstrap/authenticate.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::transport::tcp {

/// Connects to a listener and waits for its verdict. Blocking, bounded by the limit's deadline; an attempt in
/// which the listener says nothing for long is given up and repeated. Empty: crossed, the peer's own
/// connection is on its way to this rank's inbox. Throws Error: timeout, unauthorized, system, peer_lost
/// (nobody listens there: it did before its address was given out, so a refusal is final), and what the
/// limit's check throws.
PrivateDescriptor dial(const bootstrap::Endpoint& listener, const bootstrap::Secret& secret,
                       const bootstrap::Hello& hello, const bootstrap::Limit& limit);

}  // namespace tutti::transport::tcp
