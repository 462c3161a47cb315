/// \file
/// The memory by which the ranks of one communicator talk: an arena on each rank's GPU, laid out alike on
/// all. Its owner reads what peers write into it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/order.hpp"
#include "gpu/device/target.hpp"

namespace tutti::gpu::device {

inline constexpr int max_ranks = 64;
inline constexpr int max_lanes = 8;    ///< those of a schedule
inline constexpr int max_slices = 32;  ///< blocks a lane
inline constexpr int max_slot_slices = 16;
inline constexpr int max_blocks = 128;  ///< a launch
inline constexpr int channels = 4;      ///< from one rank to another
inline constexpr int credits = 4;       ///< messages in a FIFO
inline constexpr int kept_calls = 8;    ///< the last ones that a rank has begun
inline constexpr std::size_t proof_bytes = 4096;

/// Offsets in bytes into an arena. Arrays of FIFOs are by the rank at the other end, channel and slice.
struct Arena {
  std::uint32_t ranks = 1;
  std::uint16_t slices = 1;
  std::uint16_t slot_slices = 1;   ///< those that have slots: others move data in no messages
  std::uint32_t slot_bytes = 0;    ///< the longest message
  std::uint32_t packet_bytes = 0;  ///< the longest payload in packets

  /// Not 0 once a block of the owner gave up: later launches do nothing.
  [[nodiscard]] TUTTI_DEVICE static std::size_t stopped() { return 0; }
  /// 64-bit: messages sent and received, which only the owner looks at.
  [[nodiscard]] TUTTI_DEVICE std::size_t sent(int peer, int channel, int slice) const {
    return 64 + 8 * fifo(peer, channel, slice);
  }
  [[nodiscard]] TUTTI_DEVICE std::size_t received(int peer, int channel, int slice) const {
    return 64 + 8 * (fifos() + fifo(peer, channel, slice));
  }
  /// 64-bit: messages that the peer has taken, written by it.
  [[nodiscard]] TUTTI_DEVICE std::size_t taken(int peer, int channel, int slice) const {
    return 64 + 8 * (2 * fifos() + fifo(peer, channel, slice));
  }
  /// 64-bit: number of the message in a slot (from 1) above its tag, written by the peer.
  [[nodiscard]] TUTTI_DEVICE std::size_t flag(int peer, int channel, int slice, std::uint64_t message) const {
    return 64 + 8 * (3 * fifos() + credits * fifo(peer, channel, slice) + message % credits);
  }
  /// 64-bit: one-sided programs that a block has run, for its owner.
  [[nodiscard]] TUTTI_DEVICE std::size_t runs(int block) const {
    return 64 + 8 * ((3 + credits) * fifos() + static_cast<std::size_t>(block));
  }
  /// 64-bit: collectives that the owner has begun.
  [[nodiscard]] TUTTI_DEVICE std::size_t calls() const { return runs(max_blocks); }
  /// 64-bit: number of a collective (from 1) above its tag, written by the peer when it begins it; that of
  /// the owner by itself. Whoever waits in vain compares them.
  [[nodiscard]] TUTTI_DEVICE std::size_t call(int peer, std::uint64_t number) const {
    return calls() + 8 * (1 + kept_calls * static_cast<std::size_t>(peer) + number % kept_calls);
  }
  /// Two PacketPairs: where the peer's buffers are, for one block and every other run.
  [[nodiscard]] TUTTI_DEVICE std::size_t offer(int block, int peer, std::uint64_t run) const {
    const auto index = static_cast<std::size_t>(block) * ranks + static_cast<std::size_t>(peer);
    return words_end() + 2 * sizeof(PacketPair) * (2 * index + run % 2);
  }
  /// `proof_bytes` that the peer writes once, to show that it can.
  [[nodiscard]] TUTTI_DEVICE std::size_t proof(int peer) const {
    return offer(max_blocks, 0, 0) + proof_bytes * static_cast<std::size_t>(peer);
  }
  /// A header pair, and a pair for every 8 bytes. Packets are for programs of one slice.
  [[nodiscard]] TUTTI_DEVICE std::size_t packets(int peer, int channel, std::uint64_t message) const {
    const auto index = static_cast<std::size_t>(peer) * channels + static_cast<std::size_t>(channel);
    return proof(static_cast<int>(ranks)) + (16 + 2 * packet_bytes) * (credits * index + message % credits);
  }
  [[nodiscard]] TUTTI_DEVICE std::size_t slot(int peer, int channel, int slice, std::uint64_t message) const {
    return packets(static_cast<int>(ranks), 0, 0) +
           std::size_t{slot_bytes} * (credits * fifo(peer, channel, slice, slot_slices) + message % credits);
  }
  [[nodiscard]] TUTTI_DEVICE std::size_t bytes() const { return slot(static_cast<int>(ranks), 0, 0, 0); }

 private:
  [[nodiscard]] TUTTI_DEVICE std::size_t fifo(int peer, int channel, int slice) const {
    return fifo(peer, channel, slice, slices);
  }
  [[nodiscard]] TUTTI_DEVICE static std::size_t fifo(int peer, int channel, int slice, std::size_t all) {
    return (static_cast<std::size_t>(peer) * channels + static_cast<std::size_t>(channel)) * all +
           static_cast<std::size_t>(slice);
  }
  [[nodiscard]] TUTTI_DEVICE std::size_t fifos() const { return std::size_t{ranks} * channels * slices; }
  [[nodiscard]] TUTTI_DEVICE std::size_t words_end() const {
    return (call(static_cast<int>(ranks), 0) + 63) / 64 * 64;
  }
};

static_assert(sizeof(Arena) == 16);

/// Why a wait ended without what it waited for.
enum class Cause : std::uint32_t { none, timeout, aborted, mismatch, bounds };
/// What a wait is for.
enum class Awaited : std::uint32_t { message, room, buffers };

/// What the first block that gave up says. Written by the device, read by the host when `cause` is not none.
struct Report {
  std::uint32_t cause = 0;
  std::uint32_t awaited = 0;
  std::int32_t peer = -1;
  std::uint32_t unused = 0;
  std::uint64_t sequence = 0;             ///< of the launch
  std::uint32_t expected = 0, found = 0;  ///< tags that differ
};

/// Page-locked host memory of one rank.
struct Control {
  std::uint32_t abort = 0;  ///< written by the host: blocks that wait give up
  std::uint32_t unused = 0;
  Report report;
};
static_assert(sizeof(Control) == 40 && offsetof(Control, report) == 8);

}  // namespace tutti::gpu::device
