/// \file
/// Waits of the device: bounded in time, ended by an abort, and with a reason when they fail.
#pragma once

#include <cstdint>

#include "gpu/device/membership.hpp"
#include "gpu/device/order.hpp"

namespace tutti::gpu::device {

TUTTI_DEVICE std::uint32_t* stopped(const Group& group) {
  return reinterpret_cast<std::uint32_t*>(group.arenas[group.rank] + Arena::stopped());
}

/// This rank stops, and says why.
TUTTI_DEVICE_CALL void give_up(const Group& group, std::uint64_t sequence, Cause cause, int peer,
                               Awaited awaited, std::uint32_t expected, std::uint32_t found) {
  if (!claim_relaxed_device(stopped(group))) return;  // another thread has reported
  Report& report = group.control->report;
  report.awaited = static_cast<std::uint32_t>(awaited);
  report.peer = peer;
  report.sequence = sequence;
  report.expected = expected;
  report.found = found;
  store_release_system(&report.cause, static_cast<std::uint32_t>(cause));
}

/// A look at everything that ends a wait, which began at `since` (0: it begins now). When it began; 0: it is
/// over.
TUTTI_DEVICE_CALL std::uint64_t look(const Group& group, std::uint64_t sequence, int peer, Awaited awaited,
                                     std::uint64_t since) {
  if (load_relaxed_system(stopped(group)) != 0) return 0;
  if (load_relaxed_system(&group.control->abort) != 0) {
    give_up(group, sequence, Cause::aborted, peer, awaited, 0, 0);
    return 0;
  }
  // The peer's last calls are known as far as they have arrived; those long past are forgotten.
  std::byte* const mine = group.arenas[group.rank];
  const auto load = [](std::byte* memory, std::size_t offset) {
    return load_acquire_system(reinterpret_cast<std::uint64_t*>(memory + offset));
  };
  const std::uint64_t number = load(mine, group.arena.calls());
  const std::uint64_t own = load(mine, group.arena.call(group.rank, number));
  const std::uint64_t theirs = group.by_mail(peer) ? load(group.inboxes[peer], Mailbox::call(number))
                                                   : load(mine, group.arena.call(peer, number));
  if (number != 0 && own >> 32 == theirs >> 32 && own != theirs) {
    give_up(group, sequence, Cause::mismatch, peer, Awaited::message, static_cast<std::uint32_t>(own),
            static_cast<std::uint32_t>(theirs));
    return 0;
  }
  const std::uint64_t now = nanoseconds();
  if (since == 0) return now;
  if (now - since < group.timeout_ns) return since;
  give_up(group, sequence, Cause::timeout, peer, awaited, 0, 0);
  return 0;
}

/// One wait of one thread. Ask `goes_on` after every poll that found nothing.
class Wait {
 public:
  TUTTI_DEVICE Wait(const Group& group, std::uint64_t sequence) : group_(group), sequence_(sequence) {}

  /// False when it is over: the cause is reported, and this rank stops.
  TUTTI_DEVICE bool goes_on(int peer, Awaited awaited) {
    pause(polls_);
    if (++polls_ % polls_a_look != 0) return true;
    since_ = look(group_, sequence_, peer, awaited, since_);
    return since_ != 0;
  }
  /// The peer's message belongs to another call.
  TUTTI_DEVICE void mismatch(int peer, std::uint32_t expected, std::uint32_t found) {
    give_up(group_, sequence_, Cause::mismatch, peer, Awaited::message, expected, found);
  }
  /// What the device knows of the block for a peer does not fit the buffers.
  TUTTI_DEVICE void out_of_bounds(int peer) {
    give_up(group_, sequence_, Cause::bounds, peer, Awaited::message, 0, 0);
  }

 private:
  const Group& group_;
  std::uint64_t sequence_;
  std::uint32_t polls_ = 0;
  std::uint64_t since_ = 0;
};

}  // namespace tutti::gpu::device
