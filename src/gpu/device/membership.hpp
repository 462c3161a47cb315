/// \file
/// What all launches of one rank share: who it is, and the ways to the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/arena.hpp"
#include "gpu/device/mailbox.hpp"

namespace tutti::gpu::device {

inline constexpr int max_regions = 32;

/// Memory of a rank that this rank's device reaches, at another address than its owner's does.
struct Region {
  const std::byte* begin = nullptr;  ///< the owner's address
  std::uint64_t bytes = 0;
  std::byte* here = nullptr;
};

/// The ranks and the ways to them, but for regions: blocks keep it in shared memory.
struct Group {
  std::int32_t rank = 0, size = 1;
  std::uint64_t timeout_ns = 0;
  Control* control = nullptr;  ///< as the device reaches it
  Arena arena;                 ///< the layouts
  Mailbox mailbox;
  /// By rank, as this rank's device reaches them; nullptr: mailboxes lead to that rank.
  std::byte* arenas[max_ranks] = {};
  std::byte* outboxes[max_ranks] = {};   ///< this rank writes them
  std::byte* inboxes[max_ranks] = {};    ///< the peer writes them, or its network
  std::byte* out_slots[max_ranks] = {};  ///< those of the mailboxes
  std::byte* in_slots[max_ranks] = {};

  [[nodiscard]] TUTTI_DEVICE bool by_mail(int peer) const { return arenas[peer] == nullptr; }
};

/// In device memory.
struct Membership : Group {
  Region regions[max_ranks][max_regions] = {};
  std::uint64_t region_count = 0;  ///< of every rank; some may be empty

  /// Where this rank reaches what `owner` has at an address: there, if it is in no region.
  [[nodiscard]] TUTTI_DEVICE std::byte* reach(int owner, const std::byte* address) const {
    for (std::uint64_t i = 0; i < region_count; ++i) {
      const Region& region = regions[owner][i];
      if (address >= region.begin && address < region.begin + region.bytes)
        return region.here + (address - region.begin);
    }
    return const_cast<std::byte*>(address);
  }
};
static_assert(sizeof(Region) == 24 && sizeof(Group) == 48 + std::size_t{40} * max_ranks &&
              sizeof(Membership) == sizeof(Group) + std::size_t{24} * max_regions * max_ranks + 8);

}  // namespace tutti::gpu::device
