/// \file
/// Both ends of a FIFO in shared memory. One writer; one reader, or for multicast every other rank.
///
/// Short messages travel in lines (payload and sequence word in one cache line), longer ones in slots with a
/// flag word each. Both ends know every message's size, so they agree on the form of each message, and on its
/// place but for one thing: where ranks are many, a sender whose ring is empty may start at its front again,
/// whose pages are still in the caches. So a receiver looks at both places. Positions count up for ever (mod
/// 2^32); a word holds (tag << 32) | (position + 1), so a stale word never fits: flags where no message began
/// for long are written anew before positions come again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/store_trial.hpp"
#include "transport/channel.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/wakes.hpp"
#include "transport/transport.hpp"

namespace tutti::transport::shm {

/// Where the parts of one FIFO lie in this process.
struct FifoMemory {
  FifoMemory(const Arena& arena, Rank writer, Rank reader, int channel);
  Line* lines;
  std::atomic<std::uint64_t>* flags;  ///< one a unit: a message uses its first, a long one two
  Acknowledged* acknowledged;         ///< one a reader
  std::byte* slots;
  std::uint32_t units;       ///< positions of a lap around the ring: a power of two
  std::uint32_t room;        ///< units that there are; a lap skips the rest
  std::size_t line_message;  ///< longest message in lines
  std::size_t longest;       ///< message of schedules
  std::size_t long_from;     ///< shortest that travels in parts, or stays (message_fifo.hpp)
  bool rewinds;              ///< an empty ring is written from its front again
  /// Position that both ends begin at: tests begin near to where positions wrap.
  std::uint32_t first_unit = 0;
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

class ShmSender : public Sender {
 public:
  /// `readers`: all of them, as ranks of this host.
  ShmSender(Wakes& wakes, const FifoMemory& memory, std::vector<Rank> readers, Traffic& traffic);
  std::byte* try_reserve(std::size_t bytes) override;
  [[nodiscard]] bool past_caches(std::size_t bytes) const override {
    return bytes > memory_.line_message && fills_.past_caches();
  }
  void publish(std::size_t bytes, Tag tag) override;
  bool try_send(const std::byte* data, std::size_t bytes, Tag tag, bool stable) final;
  bool flushed() override;
  void name_slow_readers(std::size_t bytes, std::vector<Rank>& ranks) const override;
  /// See `Acknowledged`; of the first reader.
  [[nodiscard]] std::uint32_t parts_taken() const {
    return acknowledged().parts.load(std::memory_order_relaxed);
  }

 protected:
  /// `try_send` of more than a line; or there may be no room.
  virtual bool try_send_long(const std::byte* data, std::size_t bytes, Tag tag, bool stable);
  /// Where a message for a slot goes; nullptr while there is no room.
  std::byte* slot(std::size_t bytes);
  [[nodiscard]] std::uint32_t slot_position(std::size_t bytes) const;
  void copy_in(std::byte* room, const std::byte* data, std::size_t bytes);
  void publish_slot(std::size_t bytes, Tag tag);
  /// Takes the lines of the next message of this length back from who read them last.
  void prefetch_next_slot(std::size_t bytes);
  void count_sent(std::size_t bytes);
  /// Of the next message, at least.
  [[nodiscard]] std::uint32_t position() const { return unit_; }
  /// Whether the readers have taken all before that position.
  [[nodiscard]] bool taken(std::uint32_t end);
  [[nodiscard]] const FifoMemory& memory() const { return memory_; }
  /// What the first reader has taken.
  [[nodiscard]] const Acknowledged& acknowledged() const { return memory_.acknowledged[readers_[0]]; }
  [[nodiscard]] std::atomic<std::uint64_t>& flag(std::uint32_t position) const {
    return memory_.flags[position % memory_.units];
  }

 private:
  bool lines_free(std::uint32_t needed);
  bool units_free(std::uint32_t end);
  void take_back_units();
  void take_back_to(std::uint32_t end);
  void rewind();
  void write_line(std::uint32_t position, const std::byte* data, std::size_t bytes, Tag tag);
  void write_lines(const std::byte* data, std::size_t bytes, Tag tag);
  void sent(std::size_t bytes);
  Wakes& wakes_;
  FifoMemory memory_;
  std::vector<Rank> readers_;
  Traffic& traffic_;
  std::uint32_t line_ = 0, lines_taken_ = 0;  ///< next position; lowest acknowledgement seen
  std::uint32_t unit_ = memory_.first_unit, units_taken_ = unit_;
  /// Where it last looked whether the ring was empty: once a position, so that reserved room stays.
  std::uint32_t looked_ = 0;
  std::uint32_t patience_ = 1;  ///< units until it looks again
  /// Of what `try_send` copies, and of what callers write into reserved room.
  kernels::StoreTrials copies_, fills_;
  alignas(64) std::byte staging_[line_message_max];
};

class ShmReceiver : public Receiver {
 public:
  /// `writer`, `me`: ranks of this host.
  ShmReceiver(Wakes& wakes, const FifoMemory& memory, Rank writer, Rank me, Traffic& traffic);
  const std::byte* try_acquire(std::size_t bytes, Tag tag) override;
  void release() override;
  bool try_receive(std::byte* into, std::size_t bytes, Tag tag) final;
  [[nodiscard]] bool missing(std::size_t bytes) const override;
  void suspect(std::size_t bytes, Tag tag) override;

 protected:
  /// `try_receive` of more than a line.
  virtual bool try_receive_long(std::byte* into, std::size_t bytes, Tag tag);
  /// The next message, one in a slot, which is then held; nullptr while it has not arrived.
  const std::byte* slot(std::size_t bytes, Tag tag);
  /// Whether that one has not arrived.
  [[nodiscard]] bool slot_missing(std::size_t bytes) const { return !filled(place(units_for(bytes))); }
  /// Position of the message held.
  [[nodiscard]] std::uint32_t held_start(std::size_t bytes) const { return held_end_ - units_for(bytes); }
  [[nodiscard]] std::uint32_t held_end() const { return held_end_; }  ///< of that message or the last one
  /// Takes the message held.
  void copy_out(std::byte* into, const std::byte* data, std::size_t bytes);
  /// Takes the message held; its writer waits for that.
  void take_units_at_once();
  [[nodiscard]] Acknowledged& acknowledged() const { return mine_; }
  void count_received(std::size_t bytes);
  void count_direct(std::size_t bytes) { traffic_.bytes_direct += bytes; }
  [[nodiscard]] Rank writer() const { return writer_; }
  [[nodiscard]] const FifoMemory& memory() const { return memory_; }
  [[nodiscard]] const std::atomic<std::uint64_t>& flag(std::uint32_t position) const {
    return memory_.flags[position % memory_.units];
  }

 private:
  bool read_lines(std::byte* into, std::size_t bytes, Tag tag);
  /// Where the next message of so many units has arrived, or is due.
  [[nodiscard]] std::uint32_t place(std::uint32_t needed) const;
  /// Whether a message has arrived there.
  [[nodiscard]] bool filled(std::uint32_t place) const;
  void take_lines(std::uint32_t count);
  void take_units(std::uint32_t end);
  Wakes& wakes_;
  FifoMemory memory_;
  Rank writer_;
  Acknowledged& mine_;
  Traffic& traffic_;
  std::uint32_t line_ = 0, lines_told_ = 0;
  std::uint32_t unit_ = memory_.first_unit, units_told_ = unit_;
  std::uint32_t lines_read_ = 0;  ///< of the message being read
  std::uint32_t held_lines_ = 0;  ///< of the acquired message
  std::uint32_t held_end_ = 0;    ///< unit position after the acquired message
  std::size_t held_bytes_ = 0;
  alignas(64) std::byte staging_[line_message_max];
};

}  // namespace tutti::transport::shm
