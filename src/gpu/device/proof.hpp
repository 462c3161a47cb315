/// \file
/// A pattern that every rank writes into every other's arena, or into the mailbox for it, before anything
/// relies on it: access control and address translation between devices can corrupt silently.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/membership.hpp"
#include "gpu/device/order.hpp"

namespace tutti::gpu::device {

TUTTI_DEVICE std::uint64_t proof_word(int from, int to, int index) {
  std::uint64_t h =
      (static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to)) * 0xD6E8FEB86659FD93ULL;
  h = (h ^ static_cast<std::uint64_t>(index)) * 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 29);
}

/// Phase 0 writes to all peers. Phase 1, once all ranks are through with it, looks at what they wrote, and
/// sets word r of `wrong` (host memory) to 1 where rank r's words are not there. One block.
template <class Block>
TUTTI_DEVICE void prove(const Block& block, const Membership& group, int phase, std::uint32_t* wrong) {
  constexpr int words = proof_bytes / sizeof(std::uint64_t);
  for (int peer = 0; peer < group.size; ++peer) {
    std::byte* place;
    if (group.by_mail(peer))
      place = (phase == 0 ? group.outboxes[peer] : group.inboxes[peer]) + Mailbox::proof();
    else
      place = phase == 0 ? group.arenas[peer] + group.arena.proof(group.rank)
                         : group.arenas[group.rank] + group.arena.proof(peer);
    auto* const pattern = reinterpret_cast<std::uint64_t*>(place);
    bool differs = false;
    for (int i = block.thread(); i < words; i += block.threads())
      if (phase == 0)
        store_release_system(pattern + i, proof_word(group.rank, peer, i));
      else
        differs = differs || load_acquire_system(pattern + i) != proof_word(peer, group.rank, i);
    if (block.any(differs) && block.thread() == 0) store_release_system(wrong + peer, 1U);
  }
}

}  // namespace tutti::gpu::device
