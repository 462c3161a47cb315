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
  TUTTI_DEVICE Wait(const Membership& group, std::uint64_t sequence, std::uint32_t lane)
      : group_(group), sequence_(sequence), lane_(lane) {}

  /// False when it is over: the cause is reported, and this rank stops.
  TUTTI_DEVICE bool goes_on(int peer, Awaited awaited) {
    pause(polls_);
    if (++polls_ % polls_a_look != 0) return true;
    if (load_relaxed_system(stopped()) != 0) return false;
    if (load_relaxed_system(&group_.control->abort) != 0) {
      give_up(Cause::aborted, peer, awaited, 0, 0);
      return false;
    }
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

 private:
  [[nodiscard]] TUTTI_DEVICE std::uint32_t* stopped() const {
    return reinterpret_cast<std::uint32_t*>(group_.arenas[group_.rank] + group_.arena.stopped());
  }
  TUTTI_DEVICE void give_up(Cause cause, int peer, Awaited awaited, std::uint32_t expected,
                            std::uint32_t found) {
    if (!claim_relaxed_device(stopped())) return;  // another thread has reported
    Report& report = group_.control->report;
    report.awaited = static_cast<std::uint32_t>(awaited);
    report.peer = peer;
    report.lane = lane_;
    report.sequence = sequence_;
    report.expected = expected;
    report.found = found;
    store_release_system(&report.cause, static_cast<std::uint32_t>(cause));
  }

  const Membership& group_;
  std::uint64_t sequence_;
  std::uint32_t lane_;
  std::uint32_t polls_ = 0;
  std::uint64_t since_ = 0;
};

}  // namespace tutti::gpu::device
