/// \file
/// The name of a group that is about to form: where its rank 0 listens, and the secret that its members
/// share.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

/// Made by the process that will be rank 0, handed to the others by any means (a file, MPI_Bcast, an
/// environment variable), consumed by `Communicator`. Like `ncclUniqueId` it is a fixed-size value. Unlike
/// it, it holds a 128-bit secret: whoever connects must prove by HMAC challenge-response that it knows the
/// secret, before anything it says is parsed. Treat the id as a password. A value: several threads may make
/// ids at once.
class UniqueId {
 public:
  /// Listens on `interface` and on no other, on a port of the system's choice. `interface` is a name such as
  /// "eth0", an address, or "default": that of the default route. "" is TUTTI_INTERFACE, and loopback where
  /// that is not set, which ranks of other hosts are told. The listening socket is held in this process until
  /// a Communicator of rank 0 takes it, or this process ends. Throws Error(invalid_argument) for an interface
  /// that does not exist, is down or has link-local addresses only (lists those that there are),
  /// Error(system).
  [[nodiscard]] static UniqueId create(std::string_view interface = "");
  /// Printable form without spaces, and back. `parse` throws Error(invalid_argument).
  [[nodiscard]] std::string to_string() const;
  static UniqueId parse(std::string_view text);

  /// Trivially copyable bytes, e.g. for MPI_Bcast.
  static constexpr std::size_t size = 64;
  std::array<std::byte, size> bytes{};
  bool operator==(const UniqueId&) const = default;
};

}  // namespace tutti
