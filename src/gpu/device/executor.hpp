/// \file
/// Runs a Program: one block for each lane and slice, whose threads work on each step together.
///
/// A slice takes every so many-th iteration, with FIFOs and scratch of its own: iterations touch different
/// bytes, so slices need no order among them, and which chunk an element belongs to does not depend on their
/// number. Results are those of the CPU executor for the same program, bit by bit.
///
/// Block: `thread()`, `threads()`, `barrier()`, and `any(bool)`, a barrier that tells all threads whether one
/// of them said true.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/counts.hpp"
#include "gpu/device/fold.hpp"
#include "gpu/device/membership.hpp"
#include "gpu/device/packets.hpp"
#include "gpu/device/program.hpp"
#include "gpu/device/rms_norm.hpp"
#include "gpu/device/wait.hpp"

namespace tutti::gpu::device {

/// Buffers of the sends and receives of one launch.
inline constexpr int max_buffers = 2 * max_ranks;
/// Buffers of an all_reduce with norm.
inline constexpr int residual_buffer = 0, weight_buffer = 1, normalized_buffer = 2;

/// One launch, by value.
struct Launch {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;  ///< `scratch_bytes` a slice
  const Program* program = nullptr;
  const Membership* group = nullptr;
  std::uint64_t sequence = 0;
  std::uint32_t tag = 0;
  float epsilon = 0;                     ///< of a norm
  std::byte* buffers[max_buffers] = {};  ///< of sends and receives, or of a norm
  Counts counts;                         ///< of counted programs
};
static_assert(sizeof(Launch) == 112 + 8 * max_buffers && offsetof(Launch, sequence) == 40 &&
              offsetof(Launch, buffers) == 56 && offsetof(Launch, counts) == 56 + 8 * max_buffers);

/// What the threads of a block share besides the launch.
struct Shared {
  const std::byte* sources[max_operands];
  std::byte* sinks[max_operands];
  std::uint32_t source_flags[max_operands];  ///< of packets; 0: memory
  std::uint32_t sink_flags[max_operands];
  std::byte* peer_inputs[max_ranks];
  std::byte* peer_outputs[max_ranks];
  float sums[partial_sums];  ///< of a norm
};

template <class Block>
class Executor {
 public:
  TUTTI_DEVICE Executor(const Block& block, Shared& shared, const Launch& launch, int lane, int slice)
      : block_(block),
        shared_(shared),
        launch_(launch),
        program_(*launch.program),
        group_(*launch.group),
        mine_(group_.arenas[group_.rank]),
        lane_(lane),
        slice_(slice) {}

  TUTTI_DEVICE void run() {
    const auto* stopped = reinterpret_cast<const std::uint32_t*>(mine_ + group_.arena.stopped());
    if (block_.any(load_relaxed_system(stopped) != 0)) return;
    if (program_.collective && block_index() == 0 && block_.thread() == 0) announce_call();
    if (program_.counted && !counts_fit()) return;
    if (program_.one_sided && !exchange_offers()) return;
    const Lane& lane = program_.lane(static_cast<std::uint32_t>(lane_));
    for (std::uint32_t p = 0; p < lane.parts; ++p)
      if (!run(program_.part(lane.first_part + p))) return;
    if (program_.one_sided && block_.thread() == 0) ++word(group_.arena.runs(block_index()));
  }

 private:
  TUTTI_DEVICE bool run(const Part& part) {
    const auto slices = static_cast<std::uint64_t>(program_.slices),
               slice = static_cast<std::uint64_t>(slice_);
    // Every slice of a one-sided program has tokens of its own, which say that its part of a step is done.
    if (program_.one_sided && program_.instruction(part.first_instruction).bytes == 0)
      return step(program_.instruction(part.first_instruction), 0);
    const std::uint64_t iterations =
        program_.counted ? pieces(program_.instruction(part.first_instruction)) : part.iterations;
    for (std::uint64_t j = (slice + slices - part.first_iteration % slices) % slices; j < iterations;
         j += slices)
      for (std::uint32_t i = 0; i < part.instructions; ++i)
        if (!step(program_.instruction(part.first_instruction + i), j)) return false;
    return true;
  }

  TUTTI_DEVICE bool step(const Instruction& instruction, std::uint64_t iteration) {
    const std::size_t bytes = length(instruction, iteration);
    if (bytes == 0 && iteration != 0) return true;
    const bool packets =
        bytes != 0 && instruction.segments * units(bytes) * unit_bytes <= program_.packet_limit;
    bool failed = false;
    if (block_.thread() == 0) failed = !find_operands(instruction, iteration, packets);
    if (block_.any(failed)) return false;
    if (instruction.normalizes)
      normalize(bytes);
    else if (packets)
      failed = !fold_in_packets(instruction, bytes);
    else if (bytes != 0)
      fold_in_memory(instruction, bytes);
    if (block_.any(failed)) return false;
    if (block_.thread() == 0) publish_and_release(instruction, bytes, packets);
    return true;
  }

  [[nodiscard]] TUTTI_DEVICE std::size_t length(const Instruction& instruction,
                                                std::uint64_t iteration) const {
    if (instruction.whole) return instruction.bytes;
    const std::uint64_t before = iteration * program_.stride, all = total(instruction);
    if (before >= all) return 0;
    const std::uint64_t left = all - before;
    return left < program_.stride ? left : program_.stride;
  }

  /// Bytes over all iterations.
  [[nodiscard]] TUTTI_DEVICE std::uint64_t total(const Instruction& instruction) const {
    if (!program_.counted) return instruction.bytes;
    const Operand& source = program_.operand(instruction.first_source);
    const Operand& sink = program_.operand(instruction.first_sink);
    const Counts& counts = launch_.counts;
    return counts.element_bytes * (source.place == Place::input ? counts.input.counts[source.rank]
                                                                : counts.output.counts[sink.rank]);
  }
  [[nodiscard]] TUTTI_DEVICE std::uint64_t pieces(const Instruction& instruction) const {
    const std::uint64_t all = total(instruction);
    return all == 0 ? 1 : (all + program_.stride - 1) / program_.stride;
  }
  /// Tells the others which call this is: where they wait for what another call would send them, they find
  /// out.
  TUTTI_DEVICE void announce_call() {
    std::uint64_t& calls = word(group_.arena.calls());
    const std::uint64_t number = calls + 1;
    for (int peer = 0; peer < group_.size; ++peer)
      store_release_system(group_.by_mail(peer)
                               ? word_at(group_.outboxes[peer], Mailbox::call(number))
                               : word_at(group_.arenas[peer], group_.arena.call(group_.rank, number)),
                           number << 32 | launch_.tag);
    store_release_system(&calls, number);
  }
  /// What a rank keeps for itself has one size.
  TUTTI_DEVICE bool counts_fit() {
    const Counts& counts = launch_.counts;
    bool failed = false;
    for (int peer = block_.thread(); peer < group_.size && !failed; peer += block_.threads()) {
      failed = !counts.input.holds(peer) || !counts.output.holds(peer) ||
               (peer == group_.rank && counts.input.counts[peer] != counts.output.counts[peer]);
      if (failed) begin_wait().out_of_bounds(peer);
    }
    return !block_.any(failed);
  }

  /// Of one thread: waits for messages and room, and writes down where all operands are.
  TUTTI_DEVICE bool find_operands(const Instruction& instruction, std::uint64_t iteration, bool packets) {
    for (std::uint32_t i = 0; i < instruction.sources; ++i) {
      const Operand& o = program_.operand(instruction.first_source + i);
      shared_.source_flags[i] = 0;
      if (o.place != Place::message) {
        shared_.sources[i] = memory(o, iteration);
        continue;
      }
      const std::uint64_t message = word(group_.arena.received(o.rank, o.channel, slice_));
      if (packets && !group_.by_mail(o.rank)) {
        shared_.source_flags[i] = packet_flag(message);
        shared_.sources[i] = mine_ + group_.arena.packets(o.rank, o.channel, message);
      } else {
        if (!await_message(o, message, tag(instruction))) return false;
        shared_.sources[i] = incoming(o, message).data;
      }
    }
    for (std::uint32_t i = 0; i < instruction.sinks; ++i) {
      const Operand& o = program_.operand(instruction.first_sink + i);
      shared_.sink_flags[i] = 0;
      if (o.place != Place::message) {
        shared_.sinks[i] = memory(o, iteration);
        continue;
      }
      const std::uint64_t message = word(group_.arena.sent(o.rank, o.channel, slice_));
      if (!await_room(o, message)) return false;
      if (packets && !group_.by_mail(o.rank)) {
        shared_.sink_flags[i] = packet_flag(message);
        shared_.sinks[i] = group_.arenas[o.rank] + group_.arena.packets(group_.rank, o.channel, message);
      } else {
        shared_.sinks[i] = outgoing(o, message).data;
      }
    }
    return true;
  }

  TUTTI_DEVICE bool await_message(const Operand& from, std::uint64_t message, std::uint32_t tag) {
    const std::uint64_t* const flag = incoming(from, message).flag;
    Wait wait = begin_wait();
    for (;;) {
      const std::uint64_t found = load_acquire_system(flag);
      if (found >> 32 == packet_flag(message)) {
        if (static_cast<std::uint32_t>(found) == tag) return true;
        wait.mismatch(from.rank, tag, static_cast<std::uint32_t>(found));
        return false;
      }
      if (!wait.goes_on(from.rank, Awaited::message)) return false;
    }
  }

  TUTTI_DEVICE bool await_room(const Operand& to, std::uint64_t message) {
    const std::uint64_t* const taken =
        group_.by_mail(to.rank) ? word_at(group_.inboxes[to.rank], group_.mailbox.taken(to.channel, slice_))
                                : word_at(mine_, group_.arena.taken(to.rank, to.channel, slice_));
    Wait wait = begin_wait();
    while (message - load_acquire_system(taken) >= credits)
      if (!wait.goes_on(to.rank, Awaited::room)) return false;
    return true;
  }

  /// A message in a slot.
  struct Slot {
    std::byte* data;
    std::uint64_t* flag;
  };
  [[nodiscard]] TUTTI_DEVICE Slot incoming(const Operand& from, std::uint64_t message) const {
    if (group_.by_mail(from.rank))
      return letter(group_.inboxes[from.rank], group_.in_slots[from.rank], from.channel, message);
    return {mine_ + group_.arena.slot(from.rank, from.channel, slice_, message),
            word_at(mine_, group_.arena.flag(from.rank, from.channel, slice_, message))};
  }
  [[nodiscard]] TUTTI_DEVICE Slot outgoing(const Operand& to, std::uint64_t message) const {
    if (group_.by_mail(to.rank))
      return letter(group_.outboxes[to.rank], group_.out_slots[to.rank], to.channel, message);
    std::byte* const theirs = group_.arenas[to.rank];
    return {theirs + group_.arena.slot(group_.rank, to.channel, slice_, message),
            word_at(theirs, group_.arena.flag(group_.rank, to.channel, slice_, message))};
  }
  [[nodiscard]] TUTTI_DEVICE Slot letter(std::byte* box, std::byte* slots, int channel,
                                         std::uint64_t message) const {
    return {slots + group_.mailbox.slot(channel, slice_, message),
            word_at(box, group_.mailbox.flag(channel, slice_, message))};
  }

  TUTTI_DEVICE void normalize(std::size_t bytes) {
    const RmsNormRow row{shared_.sources[0], launch_.buffers[weight_buffer], shared_.sinks[0], bytes,
                         launch_.epsilon};
    rms_norm(block_, shared_.sums, row, program_.type);
  }

  TUTTI_DEVICE void fold_in_memory(const Instruction& instruction, std::size_t bytes) {
    const Fold fold = this->fold(instruction);
    fold_bytes(block_, fold, program_.type, program_.op, bytes);
    for (std::uint32_t s = 1; s < instruction.segments; ++s) {
      block_.barrier();
      if (block_.thread() == 0) go_to_next_segment(instruction, bytes);
      block_.barrier();
      fold_bytes(block_, fold, program_.type, program_.op, bytes);
    }
  }

  TUTTI_DEVICE void go_to_next_segment(const Instruction& instruction, std::size_t bytes) {
    const auto stride = [&](std::uint32_t operand) {
      const std::uint64_t own = program_.operand(operand).segment_stride;
      return own != 0 ? own : bytes;
    };
    for (std::uint32_t i = 0; i < instruction.sources; ++i)
      shared_.sources[i] += stride(instruction.first_source + i);
    for (std::uint32_t i = 0; i < instruction.sinks; ++i)
      shared_.sinks[i] += stride(instruction.first_sink + i);
  }

  [[nodiscard]] TUTTI_DEVICE bool fold_in_packets(const Instruction& instruction, std::size_t bytes) {
    const PacketFold fold{this->fold(instruction),
                          shared_.source_flags,
                          shared_.sink_flags,
                          &program_.operand(instruction.first_source),
                          &program_.operand(instruction.first_sink),
                          bytes,
                          instruction.segments};
    bool right = true;
    if (block_.thread() == 0) {
      write_headers(fold, tag(instruction));
      right = check_headers(fold, tag(instruction), begin_wait());
    }
    return right && fold_packets(block_, fold, program_.type, program_.op, begin_wait());
  }

  [[nodiscard]] TUTTI_DEVICE Fold fold(const Instruction& instruction) const {
    Fold fold{shared_.sources, shared_.sinks, instruction.sources, instruction.sinks, {}};
    if (instruction.completes) fold.modifiers.divisor = program_.divisor;
    return fold;
  }

  /// Of one thread, after a barrier: all others are through.
  TUTTI_DEVICE void publish_and_release(const Instruction& instruction, std::size_t bytes, bool packets) {
    for (std::uint32_t i = 0; i < instruction.sinks; ++i) {
      const Operand& o = program_.operand(instruction.first_sink + i);
      if (o.place != Place::message) continue;
      const std::uint64_t message = word(group_.arena.sent(o.rank, o.channel, slice_))++;
      if (packets && !group_.by_mail(o.rank)) continue;  // they tell themselves
      if (group_.by_mail(o.rank))
        *word_at(group_.outboxes[o.rank], group_.mailbox.size(o.channel, slice_, message)) =
            bytes * instruction.segments;
      store_release_system(outgoing(o, message).flag,
                           static_cast<std::uint64_t>(packet_flag(message)) << 32 | tag(instruction));
    }
    for (std::uint32_t i = 0; i < instruction.sources; ++i) {
      const Operand& o = program_.operand(instruction.first_source + i);
      if (o.place != Place::message) continue;
      const std::uint64_t taken = ++word(group_.arena.received(o.rank, o.channel, slice_));
      store_release_system(
          group_.by_mail(o.rank)
              ? word_at(group_.outboxes[o.rank], group_.mailbox.taken(o.channel, slice_))
              : word_at(group_.arenas[o.rank], group_.arena.taken(group_.rank, o.channel, slice_)),
          taken);
    }
  }

  /// All ranks learn from the device where the others' buffers are, so that the host need not wait for them.
  /// That holds for ranks that share an address space, and for memory in regions.
  TUTTI_DEVICE bool exchange_offers() {
    const std::uint64_t run = word(group_.arena.runs(block_index()));
    const std::uint32_t flag = packet_flag(run);
    bool failed = false;
    for (int peer = block_.thread(); peer < group_.size; peer += block_.threads())
      store_offer(group_.arenas[peer] + group_.arena.offer(block_index(), group_.rank, run),
                  {launch_.input, launch_.output}, flag);
    for (int peer = block_.thread(); peer < group_.size && !failed; peer += block_.threads()) {
      Offer offer;
      failed = !receive_offer(mine_ + group_.arena.offer(block_index(), peer, run), offer, flag, peer,
                              begin_wait());
      shared_.peer_inputs[peer] = group_.reach(peer, offer.input);
      shared_.peer_outputs[peer] = group_.reach(peer, offer.output);
    }
    return !block_.any(failed);
  }

  [[nodiscard]] TUTTI_DEVICE std::byte* memory(const Operand& o, std::uint64_t iteration) const {
    const std::uint64_t offset = o.offset + iteration * program_.stride;
    switch (o.place) {
      case Place::input:
        return const_cast<std::byte*>(launch_.input) + offset + place_of_block(launch_.counts.input, o);
      case Place::output:
        return launch_.output + offset + place_of_block(launch_.counts.output, o);
      case Place::peer_input:
        return shared_.peer_inputs[o.rank] + offset;
      case Place::peer_output:
        return shared_.peer_outputs[o.rank] + offset;
      case Place::buffer:
        return launch_.buffers[o.rank] + offset;
      default:
        return launch_.scratch + static_cast<std::size_t>(slice_) * program_.scratch_bytes + o.offset;
    }
  }

  [[nodiscard]] TUTTI_DEVICE std::uint64_t place_of_block(const Blocks& blocks, const Operand& o) const {
    return program_.counted ? blocks.displacement(o.rank) * launch_.counts.element_bytes : 0;
  }

  [[nodiscard]] TUTTI_DEVICE Wait begin_wait() const { return Wait(group_, launch_.sequence); }
  [[nodiscard]] TUTTI_DEVICE std::uint32_t tag(const Instruction& instruction) const {
    return launch_.tag ^ (program_.counted ? salt_of(total(instruction)) : instruction.salt);
  }
  /// Message n, from 0, has the flag n + 1: memory is zero before the first.
  [[nodiscard]] TUTTI_DEVICE static std::uint32_t packet_flag(std::uint64_t message) {
    return static_cast<std::uint32_t>(message + 1);
  }
  [[nodiscard]] TUTTI_DEVICE int block_index() const { return lane_ * max_slices + slice_; }
  [[nodiscard]] TUTTI_DEVICE std::uint64_t& word(std::size_t offset) const { return *word_at(mine_, offset); }
  [[nodiscard]] TUTTI_DEVICE static std::uint64_t* word_at(std::byte* memory, std::size_t offset) {
    return reinterpret_cast<std::uint64_t*>(memory + offset);
  }

  const Block& block_;
  Shared& shared_;
  const Launch& launch_;
  const Program& program_;
  const Membership& group_;
  std::byte* const mine_;
  const int lane_, slice_;
};

}  // namespace tutti::gpu::device
