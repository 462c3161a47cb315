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
  std::byte* arena = nullptr;  ///< this rank's
  std::uint64_t sequence = 0;
  std::uint32_t tag = 0;
  std::uint32_t program_bytes = 0;
  std::byte* buffers[max_buffers] = {};  ///< of sends and receives, or of a norm
  Counts counts;                         ///< of counted programs
  float epsilon = 0;                     ///< of a norm
  DataType type = DataType::uint8;       ///< of the program, as `op`
  ReduceOp op = ReduceOp::sum;
};
static_assert(sizeof(Launch) == 128 + 8 * max_buffers && offsetof(Launch, sequence) == 48 &&
              offsetof(Launch, buffers) == 64 && offsetof(Launch, counts) == 64 + 8 * max_buffers);

/// Programs of up to so many bytes are read from shared memory. Each step looks up a dozen of their words,
/// one after the other, each of which would come from the device's second-level cache.
inline constexpr std::size_t near_program_bytes = 8192;

/// What tells the other end of a message, after a step, that it has been taken or is there. For the thread
/// that looked the message up.
struct Signal {
  std::uint64_t* at = nullptr;  ///< nullptr: there is nothing to tell
  std::uint64_t value = 0;
  bool by_mail = false;
};

/// What the threads of a block share besides the launch.
struct Shared {
  alignas(16) std::byte program[near_program_bytes];
  Group group;
  const std::byte* sources[max_operands];
  std::byte* sinks[max_operands];
  std::uint32_t source_flags[max_operands];  ///< of packets; 0: memory
  std::uint32_t sink_flags[max_operands];
  Signal releases[max_operands], publications[max_operands];
  std::byte* peer_inputs[max_ranks];
  std::byte* peer_outputs[max_ranks];
  float sums[partial_sums];  ///< of a norm
};

/// For programs of one type and operation: what a kernel does not do need not be loaded into its instruction
/// cache, and all that it does is nearly one function. (The stack that calls have is in the first-level
/// cache, which every acquire empties.)
template <class Format, class Op, class Block>
class Executor {
 public:
  TUTTI_DEVICE Executor(const Block& block, Shared& shared, const Launch& launch, int lane, int slice)
      : block_(block),
        shared_(shared),
        launch_(launch),
        is_near_(launch.program_bytes <= near_program_bytes),
        program_(is_near_ ? *reinterpret_cast<const Program*>(shared.program) : *launch.program),
        group_(shared.group),
        mine_(launch.arena),
        lane_(lane),
        slice_(slice) {}

  TUTTI_DEVICE void run() {
    if (!begin()) return;
    if (program_.collective && block_index() == 0 && block_.thread() == block_.threads() / 2) announce_call();
    if (program_.counted && !counts_fit()) return;
    if (program_.one_sided && !exchange_offers()) return;
    const Lane& lane = program_.lane(static_cast<std::uint32_t>(lane_));
    for (std::uint32_t p = 0; p < lane.parts; ++p)
      if (!run(program_.part(lane.first_part + p))) return;
    if (program_.one_sided && block_.thread() == 0) ++word(group_.arena.runs(block_index()));
  }

 private:
  /// What every step reads comes into shared memory. False when this rank has stopped.
  TUTTI_DEVICE bool begin() {
    // Both are on their way at once.
    const auto* const group = reinterpret_cast<const std::uint64_t*>(launch_.group);
    const auto* const program = reinterpret_cast<const std::uint64_t*>(launch_.program);
    constexpr std::size_t group_words = sizeof shared_.group / 8;
    const std::size_t program_words = is_near_ ? launch_.program_bytes / 8 : 0;
    for (auto i = static_cast<std::size_t>(block_.thread()); i < group_words || i < program_words;
         i += static_cast<std::size_t>(block_.threads())) {
      std::uint64_t of_group = 0, of_program = 0;
      if (i < group_words) of_group = group[i];
      if (i < program_words) of_program = program[i];
      if (i < group_words) reinterpret_cast<std::uint64_t*>(&shared_.group)[i] = of_group;
      if (i < program_words) reinterpret_cast<std::uint64_t*>(shared_.program)[i] = of_program;
    }
    const auto* stopped = reinterpret_cast<const std::uint32_t*>(mine_ + Arena::stopped());
    return !block_.any(block_.thread() == 0 && load_relaxed_system(stopped) != 0);
  }

  TUTTI_DEVICE bool run(const Part& part) {
    const auto slices = static_cast<std::uint64_t>(program_.slices),
               slice = static_cast<std::uint64_t>(slice_);
    // Every slice of a one-sided program has tokens of its own, which say that its part of a step is done.
    const bool tokens = program_.one_sided && program_.instruction(part.first_instruction).bytes == 0;
    const std::uint64_t iterations =
        tokens ? 1
               : (program_.counted ? pieces(program_.instruction(part.first_instruction)) : part.iterations);
    const std::uint64_t from = slice + (slice < part.first_iteration ? slices : 0) - part.first_iteration;
    for (std::uint64_t j = tokens ? 0 : from; j < iterations; j += slices)
      for (std::uint32_t i = 0; i < part.instructions; ++i)
        if (!step(program_.instruction(part.first_instruction + i), j)) return false;
    return true;
  }

  TUTTI_DEVICE bool step(const Instruction& instruction, std::uint64_t iteration) {
    const std::size_t bytes = length(instruction, iteration);
    if (bytes == 0 && iteration != 0 && !instruction.whole) return true;
    const bool packets =
        bytes != 0 && instruction.segments * units(bytes) * unit_bytes <= program_.packet_limit;
    if (block_.any(!find_operands(instruction, iteration, packets))) return false;
    bool failed = false;
    if (instruction.normalizes)
      normalize(bytes);
    else if (packets)
      failed = !fold_in_packets(instruction, bytes);
    else if (bytes != 0)
      fold_in_memory(instruction, bytes);
    if (block_.any(failed)) return false;
    publish_and_release(instruction, bytes);
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
      store_relaxed_system(group_.by_mail(peer)
                               ? word_at(group_.outboxes[peer], Mailbox::call(number))
                               : word_at(group_.arenas[peer], group_.arena.call(group_.rank, number)),
                           number << 32 | launch_.tag);
    store_relaxed_system(&calls, number);
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

  /// Waits for messages and room, and writes down where all operands are. Each is looked up, and its message
  /// counted, by one thread, which later publishes or releases it; the first threads have the sources and the
  /// last ones the sinks. False for threads that gave up.
  TUTTI_DEVICE bool find_operands(const Instruction& instruction, std::uint64_t iteration, bool packets) {
    bool found = true;
    for_sources(instruction, [&](std::uint32_t i) {
      found = find_source(i, program_.operand(instruction.first_source + i), tag(instruction), iteration,
                          packets) &&
              found;
    });
    for_sinks(instruction, [&](std::uint32_t i) {
      found =
          find_sink(i, program_.operand(instruction.first_sink + i), tag(instruction), iteration, packets) &&
          found;
    });
    return found;
  }
  template <class F>
  TUTTI_DEVICE void for_sources(const Instruction& instruction, const F& f) const {
    for (auto i = static_cast<std::uint32_t>(block_.thread()); i < instruction.sources;
         i += static_cast<std::uint32_t>(block_.threads()))
      f(i);
  }
  template <class F>
  TUTTI_DEVICE void for_sinks(const Instruction& instruction, const F& f) const {
    for (auto i = static_cast<std::uint32_t>(block_.threads() - 1 - block_.thread()); i < instruction.sinks;
         i += static_cast<std::uint32_t>(block_.threads()))
      f(i);
  }

  TUTTI_DEVICE bool find_source(std::uint32_t i, const Operand& o, std::uint32_t tag, std::uint64_t iteration,
                                bool packets) {
    shared_.source_flags[i] = 0;
    Signal& release = shared_.releases[i];
    release.at = nullptr;
    if (o.place != Place::message) {
      shared_.sources[i] = memory(o, iteration);
      return true;
    }
    const std::uint64_t message = word(group_.arena.received(o.rank, o.channel, slice_))++;
    const bool mail = group_.by_mail(o.rank);
    release = {mail ? word_at(group_.outboxes[o.rank], group_.mailbox.taken(o.channel, slice_))
                    : word_at(group_.arenas[o.rank], group_.arena.taken(group_.rank, o.channel, slice_)),
               message + 1, mail};
    if (packets && !mail) {
      shared_.source_flags[i] = packet_flag(message);
      shared_.sources[i] = mine_ + group_.arena.packets(o.rank, o.channel, message);
      return true;
    }
    shared_.sources[i] = incoming(o, message).data;
    return await_message(o, message, tag);
  }
  TUTTI_DEVICE bool find_sink(std::uint32_t i, const Operand& o, std::uint32_t tag, std::uint64_t iteration,
                              bool packets) {
    shared_.sink_flags[i] = 0;
    Signal& publication = shared_.publications[i];
    publication.at = nullptr;
    if (o.place != Place::message) {
      shared_.sinks[i] = memory(o, iteration);
      return true;
    }
    const std::uint64_t message = word(group_.arena.sent(o.rank, o.channel, slice_))++;
    const bool mail = group_.by_mail(o.rank);
    if (packets && !mail) {  // they tell themselves
      shared_.sink_flags[i] = packet_flag(message);
      shared_.sinks[i] = group_.arenas[o.rank] + group_.arena.packets(group_.rank, o.channel, message);
    } else {
      const Slot slot = outgoing(o, message);
      shared_.sinks[i] = slot.data;
      publication = {slot.flag, static_cast<std::uint64_t>(message_flag(message)) << 32 | tag, mail};
    }
    return await_room(o, message);
  }

  TUTTI_DEVICE bool await_message(const Operand& from, std::uint64_t message, std::uint32_t tag) {
    const std::uint64_t* const flag = incoming(from, message).flag;
    Wait wait = begin_wait();
    for (;;) {
      const std::uint64_t found = load_acquire_system(flag);
      if (found >> 32 == message_flag(message)) {
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
    if constexpr (can_normalize<Format, Op>) rms_norm<Format>(block_, shared_.sums, row);
  }

  TUTTI_DEVICE void fold_in_memory(const Instruction& instruction, std::size_t bytes) {
    const Fold fold = this->fold(instruction);
    for (std::uint32_t s = 0; s < instruction.segments; ++s) {
      if (s != 0) {
        block_.barrier();
        if (block_.thread() == 0) go_to_next_segment(instruction, bytes);
        block_.barrier();
      }
      fold_bytes<Format, Op>(block_, fold, bytes);
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
    write_headers(block_, fold, tag(instruction));
    const bool right = check_headers(block_, fold, tag(instruction), begin_wait());
    return right && fold_packets<Format, Op>(block_, fold, begin_wait());
  }

  [[nodiscard]] TUTTI_DEVICE Fold fold(const Instruction& instruction) const {
    Fold fold{shared_.sources, shared_.sinks, instruction.sources, instruction.sinks, launch_.op, {}};
    if (instruction.completes) fold.modifiers.divisor = program_.divisor;
    return fold;
  }

  /// After a barrier: all threads are through.
  TUTTI_DEVICE void publish_and_release(const Instruction& instruction, std::size_t bytes) {
    for_sinks(instruction, [&](std::uint32_t i) {
      const Signal& signal = shared_.publications[i];
      if (signal.at == nullptr) return;
      if (signal.by_mail) signal.at[1] = bytes * instruction.segments;  // Mailbox::size
      store_release_system(signal.at, signal.value);
    });
    for_sources(instruction, [&](std::uint32_t i) {
      const Signal& signal = shared_.releases[i];
      if (signal.at == nullptr) return;
      if (signal.by_mail)
        store_release_system(signal.at, signal.value);
      else
        store_after_reads_system(signal.at, signal.value);
    });
  }

  /// All ranks learn from the device where the others' buffers are, so that the host need not wait for them.
  /// That holds for ranks that share an address space, and for memory in regions.
  TUTTI_DEVICE bool exchange_offers() {
    const std::uint64_t run = word(group_.arena.runs(block_index()));
    const std::uint32_t flag = message_flag(run);
    bool failed = false;
    for (int peer = block_.thread(); peer < group_.size; peer += block_.threads())
      store_offer(group_.arenas[peer] + group_.arena.offer(block_index(), group_.rank, run),
                  {launch_.input, launch_.output}, flag);
    for (int peer = block_.thread(); peer < group_.size && !failed; peer += block_.threads()) {
      Offer offer;
      failed = !receive_offer(mine_ + group_.arena.offer(block_index(), peer, run), offer, flag, peer,
                              begin_wait());
      shared_.peer_inputs[peer] = launch_.group->reach(peer, offer.input);
      shared_.peer_outputs[peer] = launch_.group->reach(peer, offer.output);
    }
    return !block_.any(failed);
  }

  [[nodiscard]] TUTTI_DEVICE std::byte* memory(const Operand& o, std::uint64_t iteration) const {
    const std::uint64_t offset = o.offset + iteration * program_.stride;
    // No switch: its table would be one more read of memory.
    if (o.place == Place::input)
      return const_cast<std::byte*>(launch_.input) + offset + place_of_block(launch_.counts.input, o);
    if (o.place == Place::output) return launch_.output + offset + place_of_block(launch_.counts.output, o);
    if (o.place == Place::peer_input) return shared_.peer_inputs[o.rank] + offset;
    if (o.place == Place::peer_output) return shared_.peer_outputs[o.rank] + offset;
    if (o.place == Place::buffer) return launch_.buffers[o.rank] + offset;
    return launch_.scratch + static_cast<std::size_t>(slice_) * program_.scratch_bytes + o.offset;
  }

  [[nodiscard]] TUTTI_DEVICE std::uint64_t place_of_block(const Blocks& blocks, const Operand& o) const {
    return program_.counted ? blocks.displacement(o.rank) * launch_.counts.element_bytes : 0;
  }

  [[nodiscard]] TUTTI_DEVICE Wait begin_wait() const { return Wait(group_, launch_.sequence); }
  [[nodiscard]] TUTTI_DEVICE std::uint32_t tag(const Instruction& instruction) const {
    return launch_.tag ^ (program_.counted ? salt_of(total(instruction)) : instruction.salt);
  }
  /// Message n, from 0, has the flag n + 1: memory is zero before the first.
  [[nodiscard]] TUTTI_DEVICE static std::uint32_t message_flag(std::uint64_t message) {
    return static_cast<std::uint32_t>(message + 1);
  }
  /// Never 0, which says that an operand is memory. Two messages in a row may share one: they lie in
  /// different places.
  [[nodiscard]] TUTTI_DEVICE static std::uint32_t packet_flag(std::uint64_t message) {
    return message_flag(message) | 1U;
  }
  [[nodiscard]] TUTTI_DEVICE int block_index() const {
    return lane_ * static_cast<int>(program_.slices) + slice_;
  }
  [[nodiscard]] TUTTI_DEVICE std::uint64_t& word(std::size_t offset) const { return *word_at(mine_, offset); }
  [[nodiscard]] TUTTI_DEVICE static std::uint64_t* word_at(std::byte* memory, std::size_t offset) {
    return reinterpret_cast<std::uint64_t*>(memory + offset);
  }

  const Block& block_;
  Shared& shared_;
  const Launch& launch_;
  const bool is_near_;
  const Program& program_;
  const Group& group_;
  std::byte* const mine_;
  const int lane_, slice_;
};

}  // namespace tutti::gpu::device
