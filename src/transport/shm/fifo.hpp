/// \file
/// Both ends of a FIFO in shared memory. One writer; one reader, or for multicast every other rank.
///
/// Short messages travel in lines (payload and sequence word in one cache line), longer ones in slots with a
/// flag word each. Both ends know every message's size, so they agree on the form of each message, and on its
/// place but for one thing: where ranks are many, a sender whose ring is empty may start at its front again,
/// whose pages are still in the caches. So a receiver looks at both places. Positions count up for ever (mod
/// 2^32); a word holds (tag << 32) | (position + 1), so a stale word never fits.
///
/// Of a long message that is sent from memory its reader can map, a slot holds only where that is. The word
/// of the second unit says so; the reader copies it from there and acknowledges at once, which the sender
/// waits for (`flushed`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/store_trial.hpp"
#include "transport/channel.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/direct_memory.hpp"
#include "transport/shm/wakes.hpp"
#include "transport/transport.hpp"

namespace tutti::transport::shm {

/// Where the parts of one FIFO lie in this process.
struct FifoMemory {
  FifoMemory(const Arena& arena, Rank writer, Rank reader, int channel);
  Line* lines;
  std::atomic<std::uint64_t>* flags;  ///< one a unit; a message uses that of its first unit
  Acknowledged* acknowledged;         ///< one a reader
  std::byte* slots;
  std::uint32_t units;       ///< positions of a lap around the ring: a power of two
  std::uint32_t room;        ///< units that there are; a lap skips the rest
  std::size_t line_message;  ///< longest message in lines
  bool rewinds;              ///< an empty ring is written from its front again
};

/// Where the next message of some units starts: messages are contiguous, so the end of the ring is skipped
/// when too short.
constexpr std::uint32_t slot_start(std::uint32_t position, std::uint32_t needed, std::uint32_t units,
                                   std::uint32_t room) {
  const std::uint32_t within = position % units;
  return within + needed > room ? position + (units - within) : position;
}
/// The next position at the front of the ring; `position` itself if it is there.
constexpr std::uint32_t front_after(std::uint32_t position, std::uint32_t units) {
  return (position + units - 1) / units * units;
}
constexpr std::uint32_t units_for(std::size_t bytes) {
  return static_cast<std::uint32_t>((bytes + unit_bytes - 1) / unit_bytes);
}
constexpr std::uint32_t lines_for(std::size_t bytes) {
  return bytes == 0 ? 1 : static_cast<std::uint32_t>((bytes + line_payload - 1) / line_payload);
}
constexpr std::uint64_t word_for(std::uint32_t position, Tag tag) {
  return (static_cast<std::uint64_t>(tag) << 32) | static_cast<std::uint32_t>(position + 1);
}

class ShmSender final : public Sender {
 public:
  /// `readers`: all of them, as ranks of this host.
  /// `direct`: the one reader may read long messages in memory that it can map; nullptr: none.
  ShmSender(Wakes& wakes, const FifoMemory& memory, std::vector<Rank> readers, Traffic& traffic,
            const DirectMemory* direct = nullptr);
  std::byte* try_reserve(std::size_t bytes) override;
  [[nodiscard]] bool past_caches(std::size_t bytes) const override {
    return bytes > memory_.line_message && fills_.past_caches();
  }
  void publish(std::size_t bytes, Tag tag) override;
  bool try_send(const std::byte* data, std::size_t bytes, Tag tag, bool stable) override;
  bool flushed() override;

 private:
  [[gnu::noinline]] bool try_send_long(const std::byte* data, std::size_t bytes, Tag tag, bool stable);
  bool offer(std::byte* room, const std::byte* data, std::size_t bytes, Tag tag);
  std::byte* slot(std::size_t bytes);
  void publish_slot(std::size_t bytes, Tag tag, bool offered = false);
  bool lines_free(std::uint32_t needed);
  bool units_free(std::uint32_t end);
  void take_back_units();
  void rewind();
  void write_line(std::uint32_t position, const std::byte* data, std::size_t bytes, Tag tag);
  void write_lines(const std::byte* data, std::size_t bytes, Tag tag);
  void sent(std::size_t bytes);
  Wakes& wakes_;
  FifoMemory memory_;
  std::vector<Rank> readers_;
  Traffic& traffic_;
  std::uint32_t line_ = 0, lines_taken_ = 0;  ///< next position; lowest acknowledgement seen
  std::uint32_t unit_ = 0, units_taken_ = 0;
  std::uint32_t looked_ = 0;    ///< where it last looked whether the ring was empty: once a position, so that
                                ///< reserved room stays
  std::uint32_t patience_ = 1;  ///< units until it looks again
  kernels::StoreTrials copies_,
      fills_;  ///< of what `try_send` copies, and of what callers write into reserved room
  const DirectMemory* direct_;
  std::uint32_t offered_end_ = 0;  ///< behind the last message that was offered
  bool offered_ = false;           ///< it may not have been read
  alignas(64) std::byte staging_[line_message_max];
};

class ShmReceiver final : public Receiver {
 public:
  /// `writer`, `me`: ranks of this host.
  /// `direct`: as the writer has one.
  ShmReceiver(Wakes& wakes, const FifoMemory& memory, Rank writer, Rank me, Traffic& traffic,
              DirectMemory* direct = nullptr);
  const std::byte* try_acquire(std::size_t bytes, Tag tag) override;
  void release() override;
  bool try_receive(std::byte* into, std::size_t bytes, Tag tag) override;
  [[nodiscard]] bool missing(std::size_t bytes) const override;
  void suspect(std::size_t bytes, Tag tag) override;

 private:
  [[gnu::noinline]] bool try_receive_long(std::byte* into, std::size_t bytes, Tag tag);
  void received(std::size_t bytes);
  bool read_lines(std::byte* into, std::size_t bytes, Tag tag);
  /// Where the next message of so many units has arrived, or is due.
  [[nodiscard]] std::uint32_t place(std::uint32_t needed) const;
  /// Whether a message has arrived there.
  [[nodiscard]] bool filled(std::uint32_t place) const;
  const std::byte* slot(std::size_t bytes, Tag tag);
  [[nodiscard]] bool holds_offer(std::size_t bytes) const;
  bool copy_offered(std::byte* into, const std::byte* offer, std::size_t bytes);
  void take_lines(std::uint32_t count);
  void take_units(std::uint32_t end);
  void take_offer();
  Wakes& wakes_;
  FifoMemory memory_;
  Rank writer_;
  Acknowledged& mine_;
  Traffic& traffic_;
  DirectMemory* direct_;
  std::uint32_t line_ = 0, lines_told_ = 0;
  std::uint32_t unit_ = 0, units_told_ = 0;
  std::uint32_t lines_read_ = 0;  ///< of the message being read
  std::uint32_t held_lines_ = 0;  ///< of the acquired message
  std::uint32_t held_end_ = 0;    ///< unit position after the acquired message
  std::size_t held_bytes_ = 0;
  std::vector<std::byte> held_copy_;  ///< of the acquired message, where that is an offer; or empty
  alignas(64) std::byte staging_[line_message_max];
};

}  // namespace tutti::transport::shm
