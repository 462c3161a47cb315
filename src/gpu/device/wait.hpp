/// \file
/// Waits of the device: bounded in time, ended by an abort, and with a reason when they fail.
#pragma once

#include <cstdint>

#include "gpu/device/membership.hpp"
#include "gpu/device/order.hpp"

namespace tutti::gpu::device {

/// One wait of one thread. Ask `goes_on` after every poll that found nothing.
class Wait {
 public:
  TUTTI_DEVICE Wait(const Membership& group, std::uint64_t sequence) : group_(group), sequence_(sequence) {}

  /// False when it is over: the cause is reported, and this rank stops.
  TUTTI_DEVICE bool goes_on(int peer, Awaited awaited) {
    pause(polls_);
    if (++polls_ % polls_a_look != 0) return true;
    if (load_relaxed_system(stopped()) != 0) return false;
    if (load_relaxed_system(&group_.control->abort) != 0) {
      give_up(Cause::aborted, peer, awaited, 0, 0);
      return false;
    }
    if (makes_another_call(peer)) return false;
    const std::uint64_t now = nanoseconds();
    if (since_ == 0) since_ = now;
    if (now - since_ < group_.timeout_ns) return true;
    give_up(Cause::timeout, peer, awaited, 0, 0);
    return false;
  }

  /// The peer's message belongs to another call.
  TUTTI_DEVICE void mismatch(int peer, std::uint32_t expected, std::uint32_t found) {
    give_up(Cause::mismatch, peer, Awaited::message, expected, found);
  }
  /// What the device knows of the block for a peer does not fit the buffers.
  TUTTI_DEVICE void out_of_bounds(int peer) { give_up(Cause::bounds, peer, Awaited::message, 0, 0); }

 private:
  /// The peer's last calls are known as far as they have arrived; those long past are forgotten.
  TUTTI_DEVICE bool makes_another_call(int peer) {
    std::byte* const mine = group_.arenas[group_.rank];
    const auto load = [](std::byte* memory, std::size_t offset) {
      return load_acquire_system(reinterpret_cast<std::uint64_t*>(memory + offset));
    };
    const std::uint64_t number = load(mine, group_.arena.calls());
    const std::uint64_t own = load(mine, group_.arena.call(group_.rank, number));
    const std::uint64_t theirs = group_.by_mail(peer) ? load(group_.inboxes[peer], Mailbox::call(number))
                                                      : load(mine, group_.arena.call(peer, number));
    if (number == 0 || own >> 32 != theirs >> 32 || own == theirs) return false;
    mismatch(peer, static_cast<std::uint32_t>(own), static_cast<std::uint32_t>(theirs));
    return true;
  }
  [[nodiscard]] TUTTI_DEVICE std::uint32_t* stopped() const {
    return reinterpret_cast<std::uint32_t*>(group_.arenas[group_.rank] + group_.arena.stopped());
  }
  TUTTI_DEVICE void give_up(Cause cause, int peer, Awaited awaited, std::uint32_t expected,
                            std::uint32_t found) {
    if (!claim_relaxed_device(stopped())) return;  // another thread has reported
    Report& report = group_.control->report;
    report.awaited = static_cast<std::uint32_t>(awaited);
    report.peer = peer;
    report.sequence = sequence_;
    report.expected = expected;
    report.found = found;
    store_release_system(&report.cause, static_cast<std::uint32_t>(cause));
  }

  const Membership& group_;
  std::uint64_t sequence_;
  std::uint32_t polls_ = 0;
  std::uint64_t since_ = 0;
};

}  // namespace tutti::gpu::device
