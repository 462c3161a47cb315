/// \file
/// By what this rank talks with a rank on another host.
#pragma once

#include <cstddef>

#include <tutti/types.hpp>

#include "transport/device_memory.hpp"

namespace tutti::gpu {

/// The mailboxes of both directions and their slots (device/mailbox.hpp). The peer's are laid out alike.
struct Line {
  Rank peer = -1;
  std::byte* outbox = nullptr;
  std::byte* inbox = nullptr;
  std::byte* out_slots = nullptr;
  std::byte* in_slots = nullptr;
  /// Where slots are in device memory, which the network's adapters read and write: what holds those that go
  /// out, and where the peer's are that come in. nullptr: they are in host memory.
  const transport::RegisteredDeviceMemory* direct = nullptr;
  transport::RegisteredAddress theirs{};
  std::size_t their_slots = 0;  ///< bytes into that
};

}  // namespace tutti::gpu
