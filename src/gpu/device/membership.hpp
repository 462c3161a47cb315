/// \file
/// What all launches of one rank share: who it is, and the ways to the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/arena.hpp"
#include "gpu/device/mailbox.hpp"

namespace tutti::gpu::device {

/// In device memory.
struct Membership {
  std::int32_t rank = 0, size = 1;
  std::uint64_t timeout_ns = 0;
  Control* control = nullptr;  ///< as the device reaches it
  Arena arena;                 ///< the layouts
  Mailbox mailbox;
  /// By rank, as this rank's device reaches them; nullptr: mailboxes lead to that rank.
  std::byte* arenas[max_ranks] = {};
  std::byte* outboxes[max_ranks] = {};  ///< this rank writes them
  std::byte* inboxes[max_ranks] = {};   ///< the peer writes them, or its network

  [[nodiscard]] TUTTI_DEVICE bool by_mail(int peer) const { return arenas[peer] == nullptr; }
};
static_assert(sizeof(Membership) == 48 + 3 * 8 * max_ranks);

}  // namespace tutti::gpu::device
