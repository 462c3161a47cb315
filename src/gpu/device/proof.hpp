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

/// What is proved, and how far that is.
enum class Proof : int {
  write,        ///< to all peers
  check,        ///< once all ranks are through with that: what they wrote
  write_slots,  ///< into the first slot for every peer that has slots
  check_slots,  ///< what has come into theirs
};

TUTTI_DEVICE std::byte* place_of_proof(const Membership& group, Proof phase, int peer) {
  if (phase == Proof::write_slots) return group.out_slots[peer];
  if (phase == Proof::check_slots) return group.in_slots[peer];
  if (group.by_mail(peer))
    return (phase == Proof::write ? group.outboxes[peer] : group.inboxes[peer]) + Mailbox::proof();
  return phase == Proof::write ? group.arenas[peer] + group.arena.proof(group.rank)
                               : group.arenas[group.rank] + group.arena.proof(peer);
}

/// One phase. Sets word r of `wrong` (host memory) to 1 where rank r's words are not there. One block.
template <class Block>
TUTTI_DEVICE void prove(const Block& block, const Membership& group, Proof phase, std::uint32_t* wrong) {
  constexpr int words = proof_bytes / sizeof(std::uint64_t);
  const bool writes = phase == Proof::write || phase == Proof::write_slots;
  for (int peer = 0; peer < group.size; ++peer) {
    auto* const pattern = reinterpret_cast<std::uint64_t*>(place_of_proof(group, phase, peer));
    if (pattern == nullptr) continue;
    bool differs = false;
    for (int i = block.thread(); i < words; i += block.threads())
      if (writes)
        store_release_system(pattern + i, proof_word(group.rank, peer, i));
      else
        differs = differs || load_acquire_system(pattern + i) != proof_word(peer, group.rank, i);
    if (block.any(differs) && block.thread() == 0) store_release_system(wrong + peer, 1U);
  }
}

}  // namespace tutti::gpu::device
