/// \file
/// Messages in packets: every 8 bytes of payload are 16 bytes in the receiver's arena that say themselves
/// whether they have arrived, so that a step needs no barrier between data and signal. For small messages.
#pragma once

#include "gpu/device/arena.hpp"
#include "gpu/device/fold.hpp"
#include "gpu/device/program.hpp"
#include "gpu/device/wait.hpp"

namespace tutti::gpu::device {

/// Operands of one step.
inline constexpr int max_operands = max_ranks + 8;
/// Payload of one PacketPair.
inline constexpr std::size_t unit_bytes = 8;
TUTTI_DEVICE std::size_t units(std::size_t bytes) { return (bytes + unit_bytes - 1) / unit_bytes; }

/// A fold some of whose operands are packets: those with a flag. They begin with a header. Every segment
/// begins with a new unit.
struct PacketFold {
  Fold fold;
  const std::uint32_t* source_flags;
  const std::uint32_t* sink_flags;
  const Operand* sources;
  const Operand* sinks;
  std::size_t bytes;  ///< of a segment
  std::uint32_t segments;
};

/// The header says which call the message belongs to. Those of all messages, by threads of their own.
template <class Block>
TUTTI_DEVICE void write_headers(const Block& block, const PacketFold& step, std::uint32_t tag) {
  for (auto k = static_cast<std::uint32_t>(block.thread()); k < step.fold.sink_count;
       k += static_cast<std::uint32_t>(block.threads()))
    if (const std::uint32_t flag = step.sink_flags[k]; flag != 0)
      store_packets_relaxed_system(reinterpret_cast<PacketPair*>(step.fold.sinks[k]),
                                   {{tag, flag}, {0, flag}});
}

/// Waits for a unit. False when the wait is over.
TUTTI_DEVICE bool receive_unit(const std::byte* packets, std::size_t index, std::uint32_t flag, int peer,
                               Awaited awaited, Wait& wait, Chunk<unit_bytes>& unit) {
  const auto* at = reinterpret_cast<const PacketPair*>(packets) + index;
  for (;;) {
    const PacketPair pair = load_packets_relaxed_system(at);
    if (pair.low.flag == flag && pair.high.flag == flag) {
      set_element(unit, 0, pair.low.data);
      set_element(unit, 1, pair.high.data);
      return true;
    }
    if (!wait.goes_on(peer, awaited)) return false;
  }
}
TUTTI_DEVICE void send_unit(std::byte* packets, std::size_t index, std::uint32_t flag,
                            const Chunk<unit_bytes>& unit) {
  store_packets_relaxed_system(
      reinterpret_cast<PacketPair*>(packets) + index,
      {{element<std::uint32_t>(unit, 0), flag}, {element<std::uint32_t>(unit, 1), flag}});
}

/// False for threads that gave up.
template <class Block>
TUTTI_DEVICE bool check_headers(const Block& block, const PacketFold& step, std::uint32_t tag, Wait wait) {
  for (auto s = static_cast<std::uint32_t>(block.thread()); s < step.fold.source_count;
       s += static_cast<std::uint32_t>(block.threads())) {
    if (step.source_flags[s] == 0) continue;
    Chunk<unit_bytes> header;
    if (!receive_unit(step.fold.sources[s], 0, step.source_flags[s], step.sources[s].rank, Awaited::message,
                      wait, header))
      return false;
    const auto found = element<std::uint32_t>(header, 0);
    if (found == tag) continue;
    wait.mismatch(step.sources[s].rank, tag, found);
    return false;
  }
  return true;
}

/// Where the unit of a memory operand is.
TUTTI_DEVICE std::size_t place_of(const Operand& operand, const PacketFold& step, std::size_t segment,
                                  std::size_t offset) {
  return segment * (operand.segment_stride != 0 ? operand.segment_stride : step.bytes) + offset;
}

/// All threads of the block call it; there is no barrier in it. False for threads that gave up.
template <class Format, class Op, class Block>
TUTTI_DEVICE bool fold_packets(const Block& block, const PacketFold& step, Wait wait) {
  const bool copies = step.fold.copies();
  const std::size_t a_segment = units(step.bytes), all = a_segment * step.segments;
  for (auto u = static_cast<std::size_t>(block.thread()); u < all;
       u += static_cast<std::size_t>(block.threads())) {
    const std::size_t segment = step.segments == 1 ? 0 : u / a_segment;  // a division takes long
    const std::size_t offset = (u - segment * a_segment) * unit_bytes;
    const std::size_t valid = step.bytes - offset;
    Accumulators<Format, Op, unit_bytes> values;
    Chunk<unit_bytes> unit;
    for (std::uint32_t s = 0; s < step.fold.source_count; ++s) {
      if (step.source_flags[s] == 0)
        unit = load_some<unit_bytes>(step.fold.sources[s] + place_of(step.sources[s], step, segment, offset),
                                     valid);
      else if (!receive_unit(step.fold.sources[s], 1 + u, step.source_flags[s], step.sources[s].rank,
                             Awaited::message, wait, unit))
        return false;
      values.add(step.fold, s, unit);
    }
    const auto result = copies ? unit : values.result(step.fold);
    for (std::uint32_t k = 0; k < step.fold.sink_count; ++k)
      if (step.sink_flags[k] == 0)
        store_some<unit_bytes>(step.fold.sinks[k] + place_of(step.sinks[k], step, segment, offset), result,
                               valid);
      else
        send_unit(step.fold.sinks[k], 1 + u, step.sink_flags[k], result);
  }
  return true;
}

/// Where a rank's buffers are.
struct Offer {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};
TUTTI_DEVICE void store_offer(std::byte* at, const Offer& offer, std::uint32_t flag) {
  Chunk<unit_bytes> unit;
  set_element(unit, 0, offer.input);
  send_unit(at, 0, flag, unit);
  set_element(unit, 0, offer.output);
  send_unit(at, 1, flag, unit);
}
/// Waits for it. False when the wait is over.
TUTTI_DEVICE bool receive_offer(const std::byte* at, Offer& offer, std::uint32_t flag, int peer, Wait wait) {
  Chunk<unit_bytes> input, output;
  if (!receive_unit(at, 0, flag, peer, Awaited::buffers, wait, input)) return false;
  if (!receive_unit(at, 1, flag, peer, Awaited::buffers, wait, output)) return false;
  offer.input = element<const std::byte*>(input, 0);
  offer.output = element<std::byte*>(output, 0);
  return true;
}

}  // namespace tutti::gpu::device
