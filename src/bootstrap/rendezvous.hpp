/// \file
/// What a unique id says, and the listening sockets that this process holds for ids it made.
#pragma once

#include <cstdint>
#include <string>

#include <tutti/unique_id.hpp>

#include "base/file_descriptor.hpp"
#include "bootstrap/session.hpp"
#include "bootstrap/socket.hpp"

namespace tutti::bootstrap {

/// Where rank 0 listens, and the secret.
struct Rendezvous {
  Endpoint endpoint;
  Secret secret{};
  /// Whose loopback interface the endpoint is at, as topology::this_loopback says; 0: not known, or at none.
  std::uint64_t loopback = 0;
};

/// Throws Error(invalid_argument) for bytes that no id of this version has.
Rendezvous read(const UniqueId& id);

/// An id for an endpoint at which rank 0, in whatever process it is, will listen itself when it joins. Throws
/// Error(invalid_argument) for an address that is not numeric, is that of no host (0.0.0.0), or is
/// link-local: its scope means something on one host only.
UniqueId make_id(const Rendezvous& rendezvous);

/// An id with a port that is free now and a new secret, for rank 0 in another process: what a launcher puts
/// into TUTTI_ID. `interface` as in UniqueId::create.
UniqueId reserve_id(std::string_view interface);

/// The listener of an id: the one that UniqueId::create left in this process, or else a new one at the id's
/// endpoint, with so much patience. Throws Error(system) when that cannot be had (rank 0 is in the wrong
/// process).
FileDescriptor take_listener(const UniqueId& id, std::chrono::milliseconds patience = port_patience);
/// Whether this process holds the listener of the id, which no rank 0 has taken.
bool holds_listener(const UniqueId& id);
/// Closes the listener that this process holds for the id, if any.
void drop_listener(const UniqueId& id);

}  // namespace tutti::bootstrap
