/// \file
/// What lies where in the shared memory of one communicator on one host. All of it starts as zeros.
///
/// | part | offset | size |
/// |---|---|---|
/// | Header, one Control a rank | 0 | a few pages |
/// | FIFOs [writer][reader][channel], the last one for streams | `fifo_offset` | `fifo.stride` each |
/// | multicast FIFOs of lone writers, one a rank | `lone_offset` | `lone.stride` each |
/// | heap windows, one a rank | `window_offset` | `window_bytes` each |
///
/// Other multicast FIFOs are at reader == writer.
///
/// The file is sparse: only what is touched takes memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <tutti/types.hpp>

#include "transport/channel.hpp"

namespace tutti::transport::shm {

/// What parts are aligned to, whatever the pages of the system: `page_bytes()` says these.
inline constexpr std::size_t page = 4096;
constexpr std::size_t round_up(std::size_t bytes, std::size_t to = page) {
  return (bytes + to - 1) / to * to;
}

/// Small messages travel in lines of one cache line: payload and the word that says it is there arrive
/// together.
inline constexpr std::size_t line_payload = 56;
inline constexpr std::uint32_t line_count = 256;
/// Longest message that ever travels in lines; longer ones take slots.
inline constexpr std::size_t line_message_max = 1024;
/// A reader returns credits after this many lines: rarely, since each return moves a cache line between
/// cores.
inline constexpr std::uint32_t line_ack_interval = line_count / 4;

/// `word` is (tag << 32) | (position + 1), written last.
struct alignas(64) Line {
  std::byte payload[line_payload];
  std::atomic<std::uint64_t> word;
};
static_assert(sizeof(Line) == 64);

/// What one reader has taken, counted since the start, also in parts of messages that stay with their writer;
/// and of the last message whose writer wanted to know, how long it was at work on it, ns. One cache line a
/// reader, written by it alone.
struct alignas(64) Acknowledged {
  std::atomic<std::uint32_t> lines;
  std::atomic<std::uint32_t> units;
  std::atomic<std::uint32_t> told;  ///< units behind that message
  std::atomic<std::uint32_t> parts;
  std::atomic<std::int64_t> copying;
};
static_assert(sizeof(Acknowledged) == 64);

/// Slots are cut from a ring of units of one page; a message takes consecutive units.
inline constexpr std::size_t unit_bytes = page;
/// Units of the longest ring: as much as a second-level cache holds. A writer that is once round then finds
/// the lines fallen out into the cache that all share, and need not take them from its readers
/// (docs/experiments.md).
inline constexpr std::uint32_t most_units = 256;
/// Units a ring: fewer with many ranks, so that the rings of all pairs stay within the caches. With 8 ranks
/// on two processors, half as many made 4 MiB of all_to_all and reduce_scatter 1.7 times as fast
/// (docs/experiments.md).
constexpr std::uint32_t unit_count(int ranks) {
  return std::clamp(std::bit_floor(512U / static_cast<unsigned>(std::max(ranks, 1))), 16U, most_units);
}

/// Where the parts of one FIFO lie, behind its lines.
struct FifoLayout {
  constexpr FifoLayout(int ranks, std::uint32_t n_units)
      : units(n_units),
        acknowledged_offset(flags_offset + units * sizeof(std::uint64_t)),
        slots_offset(round_up(acknowledged_offset + static_cast<std::size_t>(ranks) * sizeof(Acknowledged))),
        stride(slots_offset + units * unit_bytes) {}
  static constexpr std::size_t flags_offset = line_count * sizeof(Line);
  std::uint32_t units;
  std::size_t acknowledged_offset, slots_offset, stride;
};

/// Of one processor of the host.
struct alignas(64) Processor {
  std::atomic<std::uint64_t> worked;  ///< nanoseconds that ranks used it before they yielded or slept
};
inline constexpr std::size_t processors = 256;  ///< told apart; others share an entry

struct Header {
  alignas(64) std::atomic<std::uint32_t> sleepers;  ///< ranks asleep; senders look here, and rarely further
  std::atomic<std::uint32_t> closed;                ///< 1 + the rank that closed buffers first; 0: none
  std::atomic<std::uint32_t> moves;                 ///< of ranks to other processors, as far as they said
  Processor by_processor[processors];
};

/// Sends of so many bytes are long: shorter ones are not worth that their sender waits (message_fifo.hpp). In
/// schedules only what is longer than `Layout::max_message` is.
inline constexpr std::size_t long_message = 16384;
static_assert(long_message > line_message_max && long_message / unit_bytes >= 2);

/// Offsets of all parts for a number of ranks.
struct Layout {
  explicit constexpr Layout(int n_ranks)
      : ranks(n_ranks), fifo(n_ranks, unit_count(n_ranks)), lone(n_ranks, most_units) {
    const auto n = static_cast<std::size_t>(n_ranks);
    control_offset = round_up(sizeof(Header));
    fifo_offset = round_up(control_offset + n * control_bytes);
    lone_offset = fifo_offset + n * n * pair_fifos * fifo.stride;
    mapped_bytes = lone_offset + n * lone.stride;
    window_offset = round_up(mapped_bytes, window_alignment);
    file_bytes = window_offset + n * window_bytes;
  }
  [[nodiscard]] constexpr const FifoLayout& layout_of(int channel) const {
    return channel == lone_channel ? lone : fifo;
  }
  /// `reader == writer`: the multicast FIFO of the writer.
  [[nodiscard]] constexpr std::size_t offset_of(Rank writer, Rank reader, int channel) const {
    if (channel == lone_channel) return lone_offset + static_cast<std::size_t>(writer) * lone.stride;
    const auto index = (static_cast<std::size_t>(writer) * static_cast<std::size_t>(ranks) +
                        static_cast<std::size_t>(reader)) *
                           pair_fifos +
                       static_cast<std::size_t>(channel == stream_channel ? channels : channel);
    return fifo_offset + index * fifo.stride;
  }
  [[nodiscard]] constexpr std::size_t max_message() const {
    return std::min(fifo.units / 8, 16U) * unit_bytes;
  }
  /// Whether the rings of all pairs do not fit into the caches together (docs/experiments.md). Then they are
  /// kept short, and readers return what they have taken at once.
  [[nodiscard]] constexpr bool crowded() const { return ranks > 4; }
  /// Units used of a ring that has one reader. In short ones `channel_credits` of the longest messages fit,
  /// wherever the first of them starts.
  [[nodiscard]] constexpr std::uint32_t pair_units() const {
    return crowded() ? fifo.units / 8 * (channel_credits + 1) : fifo.units;
  }
  /// Bytes of a FIFO that its ends use, from its beginning; those behind take no memory.
  [[nodiscard]] constexpr std::size_t used_bytes(Rank writer, Rank reader, int channel) const {
    const FifoLayout& parts = layout_of(channel);
    return parts.slots_offset + (writer == reader ? parts.units : pair_units()) * unit_bytes;
  }

  static constexpr std::size_t pair_fifos = channels + 1;
  static constexpr std::size_t control_bytes = 20480;
  static constexpr std::size_t window_alignment = std::size_t{1} << 30;
  static constexpr std::size_t window_bytes = std::size_t{1} << 36;
  int ranks;
  FifoLayout fifo, lone;
  std::size_t control_offset = 0, fifo_offset = 0, lone_offset = 0, mapped_bytes = 0, window_offset = 0,
              file_bytes = 0;
};

/// A call that a rank has begun, for messages about what it does. Diagnostics: a torn read is tolerated by
/// checking `sequence` twice. Short, since every call writes one.
struct alignas(32) CallEntry {
  std::atomic<std::uint64_t> sequence;  ///< counted from 1; 0: none yet
  std::atomic<std::uint64_t> tag_and_kind;
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> order_and_root;  ///< order: among all calls of the rank, modulo 2^32
};
/// Of a v-form, likewise.
struct CallCounts {
  std::atomic<std::uint64_t> order;     ///< of the call, from 1; 0: none yet
  std::atomic<std::uint64_t> first[8];  ///< of all blocks, or of those it sends
};
/// By so many short calls a rank may be ahead of another one in the lines of two FIFOs. Where it is by more,
/// in slots of these or over TCP, an error names it, but not its call.
inline constexpr std::uint64_t call_log_entries = std::uint64_t{2} * line_count;
inline constexpr std::uint64_t counts_log_entries = 32;

/// What the latest trial of sends of a range of lengths has found (message_times.hpp), ns. A torn read does
/// no harm: it is one of several.
struct alignas(32) SendTimes {
  std::atomic<std::int64_t> told;  ///< when, of the steady clock; 0: never
  std::atomic<std::uint32_t> slots[2], direct[2];
};
/// The ranges: from each power of two up to the next.
inline constexpr std::size_t send_ranges = 24;

/// Of a rank whose call has failed, for others where no hub tells them: written before `Header::closed`,
/// unless it aborted before.
struct Blame {
  std::atomic<std::uint32_t> code;   ///< 1 + the error's; 0: it has not said
  std::atomic<std::uint32_t> count;  ///< of the ranks at fault, as many as there is room for
  std::atomic<Rank> ranks[8];
};

/// What `Control::sleeping` says: how the rank sleeps, or is about to. On that word (futex), or in poll(2),
/// where its bell wakes it.
inline constexpr std::uint32_t awake = 0, on_word = 1, in_poll = 2;

/// Written by its rank (`sleeping` by all).
struct Control {
  alignas(64) std::atomic<std::uint32_t> sleeping;  ///< see above
  std::atomic<std::uint32_t> processor;             ///< that it last left, counted from 1; 0: it has not yet
  std::atomic<std::uint32_t> inside;                ///< 1 while it may touch buffers of others
  std::atomic<std::uint32_t> steps_inside;          ///< how often it has moved something meanwhile
  alignas(64) std::atomic<std::uint32_t> away;      ///< 1 while it has yielded its processor, or sleeps
  alignas(64) CallEntry calls[call_log_entries];    ///< by order
  CallCounts counts[counts_log_entries];            ///< by order
  SendTimes sends[send_ranges];
  Blame blame;
};
static_assert(sizeof(Control) <= Layout::control_bytes);

}  // namespace tutti::transport::shm
