#include "execution/executor.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

#include "base/brief_copy.hpp"
#include "kernels/store_trial.hpp"

namespace tutti::execution {

namespace {

/// What a receiver says of the next message of `peer`; a message of another call is known to be that rank's.
template <class Look>
auto naming(Rank peer, const Look& look) {
  try {
    return look();
  } catch (transport::Mismatch& mismatch) {
    mismatch.from = peer;
    throw;
  }
}

[[gnu::noinline]] void copy_long(std::byte* to, const std::byte* from, std::size_t bytes,
                                 std::uint64_t streaming) {
  kernels::copy({&to, 1}, from, bytes, {.streaming_sinks = streaming});
}

bool of_peer(Base base) { return base == Base::peer_input || base == Base::peer_output; }

}  // namespace

inline void Execution::resolve(const Instruction& instruction, Step& step) const {
  step.instruction = &instruction;
  step.kind = instruction.kind;
  step.salt = instruction.salt;
  step.bytes = program_->length(instruction, 0);
  if (step.kind == Instruction::Kind::fold) return;
  const Source& source = *sources_of(instruction);
  const Sink& sink = *sinks_of(instruction);
  step.receiver = source.receiver;
  if (source.receiver == nullptr) {
    step.from = local(source.base, source.offset, 0);
    step.from_stride = stride(source.base);
    step.stable = stable_ && source.base != Base::scratch;
  }
  step.sender = sink.sender;
  if (sink.sender == nullptr) {
    step.to = local(sink.base, sink.offset, 0);
    step.to_stride = stride(sink.base);
  }
}

void Execution::begin(const Program& program, const Buffers& buffers, transport::Tag tag) {
  const std::array bases{const_cast<std::byte*>(buffers.input), buffers.output, buffers.scratch};
  peers_ = buffers.peers;
  const bool stable = program.stable && (buffers.lent || !program.lends);
  if (program_ != &program || program_id_ != program.id || program.id == 0 || bases_ != bases ||
      stable_ != stable) {
    stable_ = stable;
    resolve(program, bases);
  }
  begin_again(tag);
}

void Execution::resolve(const Program& program, const std::array<std::byte*, 3>& bases) {
  program_ = &program;
  program_id_ = program.id;
  bases_ = bases;
  steps_.clear();
  for (const auto& parts : program.lanes)
    for (const Part& part : parts)
      for (const Instruction& instruction : part.instructions) resolve(instruction, steps_.emplace_back());
  lanes_.assign(program.lanes.size(), {});
  busy_lanes_ = 0;
  const Step* first = steps_.data();
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    lanes_[l].first = first;
    for (const Part& part : program.lanes[l]) first += part.instructions.size();
    lanes_[l].end = first;
    busy_lanes_ += first != lanes_[l].first ? 1 : 0;
  }
  if (sources_.size() < program.max_operands) {
    sources_.resize(program.max_operands);
    sinks_.resize(program.max_operands);
  }
}

void Execution::begin_again(transport::Tag tag) {
  tag_ = tag;
  unfinished_ = busy_lanes_;
  for (LaneState& lane : lanes_) lane.next = lane.first;
  if (program_->brief) return;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    LaneState& lane = lanes_[l];
    const auto& parts = program_->lanes[l];
    lane.part = parts.data();
    lane.parts_end = lane.part + parts.size();
    lane.end = lane.first + (parts.empty() ? 0 : lane.part->instructions.size());
  }
}

// Where every part has one iteration, a lane's parts are one.
template <bool brief>
inline void Execution::end_part(LaneState& lane) {
  if constexpr (!brief) {
    if (++lane.iteration < lane.part->iterations) {
      lane.next -= lane.part->instructions.size();
      return;
    }
    lane.iteration = 0;
    if (++lane.part != lane.parts_end) {
      lane.end += lane.part->instructions.size();
      return;
    }
  }
  --unfinished_;
}

// Inlined by `advance`: of short messages there are several in a fraction of a microsecond.
template <bool brief>
inline bool Execution::try_step(LaneState& lane, const Step& step) {
  const std::uint64_t iteration = brief ? 0 : lane.iteration;
  const std::size_t bytes = brief ? step.bytes : program_->length(*step.instruction, iteration);
  if (bytes == 0 && iteration != 0 && !step.instruction->whole) return true;
  const transport::Tag tag = tag_ ^ step.salt;
  std::byte* const to = brief ? step.to : step.to + iteration * step.to_stride;
  if (step.kind == Instruction::Kind::receive)
    return naming(sources_of(*step.instruction)->peer,
                  [&] { return step.receiver->try_receive(to, bytes, tag); });
  const std::byte* const from = brief ? step.from : step.from + iteration * step.from_stride;
  if (step.kind == Instruction::Kind::send) {
    if (step.instruction->sinks != 1) return send_to_several(lane, from, bytes, tag);
    return step.sender->try_send(from, bytes, tag, step.stable);
  }
  if (step.kind == Instruction::Kind::fold) return try_fold(*step.instruction, iteration, bytes, tag);
  if (bytes <= brief_copy_most)
    copy_brief(to, from, bytes);
  else
    copy_long(to, from, bytes, step.instruction->streaming_sinks);
  return true;
}

bool Execution::send_to_several(LaneState& lane, const std::byte* data, std::size_t bytes,
                                transport::Tag tag) {
  const Step& step = *lane.next;
  const Sink* const sinks = sinks_of(*step.instruction);
  for (; lane.sent < step.instruction->sinks; ++lane.sent)
    if (!sinks[lane.sent].sender->try_send(data, bytes, tag, step.stable)) return false;
  lane.sent = 0;
  return true;
}

bool Execution::moved_part(const Step& step) {
  return step.kind == Instruction::Kind::send      ? step.sender->sent_part()
         : step.kind == Instruction::Kind::receive ? step.receiver->received_part()
                                                   : false;
}

// While it is at work on others' buffers, their owners may wait to take them back.
std::uint64_t Execution::steps_in_one_go() const {
  const std::uint64_t bytes = peers_ == nullptr ? transport::bytes_in_one_go : brief_message;
  return std::max<std::uint64_t>(bytes / std::max<std::uint64_t>(program_->message_bytes, 1), 1);
}

template <bool brief>
bool Execution::advance_lanes() {
  const std::uint64_t most = brief ? std::numeric_limits<std::uint64_t>::max() : steps_in_one_go();
  bool moved = false;
  for (LaneState& lane : lanes_) {
    std::uint64_t left = most;
    for (const Step* step = lane.next; step != lane.end && try_step<brief>(lane, *step); step = lane.next) {
      moved = true;
      lane.next = step + 1;
      if (lane.next == lane.end) end_part<brief>(lane);
      if (--left == 0) break;
    }
    if constexpr (!brief) moved = moved || (lane.next != lane.end && moved_part(*lane.next));
  }
  return moved;
}

bool Execution::advance() { return program_->brief ? advance_lanes<true>() : advance_lanes<false>(); }

bool Execution::flushed() const {
  return std::all_of(program_->sinks.begin(), program_->sinks.end(),
                     [](const Sink& sink) { return sink.sender == nullptr || sink.sender->flushed(); });
}

// out = in, one of which is of a peer whose memory is not mapped: straight into place.
bool Execution::copy_peers(const Instruction& instruction, std::uint64_t iteration, std::size_t bytes) {
  const Source& source = *sources_of(instruction);
  const Sink& sink = *sinks_of(instruction);
  if (instruction.sources != 1 || instruction.sinks != 1 || instruction.segments != 1 ||
      sink.sender != nullptr || source.receiver != nullptr || of_peer(source.base) == of_peer(sink.base))
    return false;
  const bool reads = of_peer(source.base);
  const Rank peer = reads ? source.owner : sink.owner;
  const Base base = reads ? source.base : sink.base;
  const std::uint64_t offset = (reads ? source.offset : sink.offset) + iteration * program_->stride;
  if (peers_->at(peer, base, offset) != nullptr) return false;
  if (reads)
    peers_->read(peer, base, offset, local(sink.base, sink.offset, iteration), bytes);
  else
    peers_->write(peer, base, offset, local(source.base, source.offset, iteration), bytes);
  bytes_direct_ += bytes;
  return true;
}

// Where the operands in peers' memory are; of sources that are not mapped, a copy.
void Execution::reach_peers(const Instruction& instruction, std::uint64_t iteration, std::size_t bytes) {
  const std::size_t message = bytes * instruction.segments;
  for (std::uint32_t i = 0; i < instruction.sources; ++i) {
    const Source& source = sources_of(instruction)[i];
    if (source.receiver != nullptr || !of_peer(source.base)) continue;
    bytes_direct_ += message;
    const std::uint64_t offset = source.offset + iteration * program_->stride;
    sources_[i] = peers_->at(source.owner, source.base, offset);
    if (sources_[i] != nullptr) continue;
    staging_.resize(std::max(staging_.size(), program_->max_operands * program_->message_bytes));
    std::byte* const room = staging_.data() + i * program_->message_bytes;
    for (std::uint32_t s = 0; s < instruction.segments; ++s)
      peers_->read(source.owner, source.base, offset + s * source.segment_stride, room + s * bytes, bytes);
    sources_[i] = room;
  }
  for (std::uint32_t i = 0; i < instruction.sinks; ++i) {
    const Sink& sink = sinks_of(instruction)[i];
    if (sink.sender != nullptr || !of_peer(sink.base)) continue;
    bytes_direct_ += message;
    sinks_[i] = peers_->at(sink.owner, sink.base, sink.offset + iteration * program_->stride);
    assert(sinks_[i] != nullptr);  // by attach only what is copied is written
  }
}

void Execution::fold(const Instruction& instruction, std::size_t bytes, kernels::FoldModifiers& modifiers) {
  modifiers.streaming_sinks |= instruction.streaming_sinks;
  modifiers.divisor = instruction.completes ? program_->divisor : 1;
  for (std::uint32_t left = instruction.segments;; --left) {
    kernels::fold_to_all(program_->kernel, program_->element_bytes, {sinks_.data(), instruction.sinks},
                         {sources_.data(), instruction.sources}, bytes / program_->element_bytes, modifiers);
    if (left <= 1) return;
    for (std::uint32_t i = 0; i < instruction.sources; ++i) {
      const std::uint64_t stride = sources_of(instruction)[i].segment_stride;
      sources_[i] += stride != 0 ? stride : bytes;
    }
    for (std::uint32_t i = 0; i < instruction.sinks; ++i) {
      const std::uint64_t stride = sinks_of(instruction)[i].segment_stride;
      sinks_[i] += stride != 0 ? stride : bytes;
    }
  }
}

bool Execution::try_fold(const Instruction& instruction, std::uint64_t iteration, std::size_t bytes,
                         transport::Tag tag) {
  const Source* const sources = sources_of(instruction);
  const Sink* const sinks = sinks_of(instruction);
  const std::size_t message = bytes * instruction.segments;
  for (std::uint32_t i = 0; i < instruction.sources; ++i) {
    if (sources[i].receiver != nullptr) {
      sources_[i] = naming(sources[i].peer, [&] { return sources[i].receiver->try_acquire(message, tag); });
      if (sources_[i] == nullptr) return false;
    } else if (!of_peer(sources[i].base)) {
      sources_[i] = local(sources[i].base, sources[i].offset, iteration);
    }
  }
  kernels::FoldModifiers modifiers;
  for (std::uint32_t i = 0; i < instruction.sinks; ++i) {
    if (sinks[i].sender != nullptr) {
      if ((sinks_[i] = sinks[i].sender->try_reserve(message)) == nullptr) return false;
      if (message >= kernels::StoreTrial::least && i < 64)
        (sinks[i].sender->past_caches(message) ? modifiers.streaming_sinks : modifiers.shared_sinks) |=
            std::uint64_t{1} << i;
    } else if (!of_peer(sinks[i].base)) {
      sinks_[i] = local(sinks[i].base, sinks[i].offset, iteration);
    }
  }
  if (bytes != 0 && (peers_ == nullptr || !copy_peers(instruction, iteration, bytes))) {
    if (peers_ != nullptr) reach_peers(instruction, iteration, bytes);
    fold(instruction, bytes, modifiers);
  }
  for (std::uint32_t i = 0; i < instruction.sources; ++i)
    if (sources[i].receiver != nullptr) sources[i].receiver->release();
  for (std::uint32_t i = 0; i < instruction.sinks; ++i)
    if (sinks[i].sender != nullptr) sinks[i].sender->publish(message, tag);
  return true;
}

bool Execution::flushes_late() const {
  return unfinished_ == 0 &&
         std::any_of(program_->sinks.begin(), program_->sinks.end(),
                     [](const Sink& sink) { return sink.sender != nullptr && sink.sender->flushes_late(); });
}

bool Execution::waits_for_any(std::span<const std::uint8_t> ranks, bool soon) const {
  const auto among = [&](Rank peer) {
    return peer < 0 ? std::any_of(ranks.begin(), ranks.end(), [](auto r) { return r != 0; })
                    : ranks[static_cast<std::size_t>(peer)] != 0;
  };
  for (const LaneState& lane : lanes_) {
    bool lacks_messages = false;
    for (const Step* next = lane.next; next != lane.end && (soon || next == lane.next); ++next) {
      const Instruction& instruction = *next->instruction;
      const std::size_t message = program_->length(instruction, lane.iteration) * instruction.segments;
      for (const Source& source :
           std::span(program_->sources).subspan(instruction.first_source, instruction.sources)) {
        if (source.receiver == nullptr || !source.receiver->missing(message)) continue;
        if (among(source.peer)) return true;
        lacks_messages = true;
      }
      if (next != lane.next || lacks_messages) continue;
      for (const Sink& sink : std::span(program_->sinks).subspan(instruction.first_sink, instruction.sinks))
        if (sink.sender != nullptr && among(sink.peer)) return true;
    }
  }
  return unfinished_ == 0 &&
         std::any_of(program_->sinks.begin(), program_->sinks.end(), [&](const Sink& sink) {
           return sink.sender != nullptr && among(sink.peer) && !sink.sender->flushed();
         });
}

void Execution::suspect(std::vector<Rank>& waiting_for) {
  const auto waits = [&](const Sink& sink, std::size_t message) {
    if (sink.peer >= 0)
      waiting_for.push_back(sink.peer);
    else if (sink.sender != nullptr)
      sink.sender->name_slow_readers(message, waiting_for);
  };
  for (const LaneState& lane : lanes_) {
    if (lane.next == lane.end) continue;
    const Instruction& instruction = *lane.next->instruction;
    const std::size_t message = program_->length(instruction, lane.iteration) * instruction.segments;
    const transport::Tag tag = tag_ ^ instruction.salt;
    const Sink* sinks = program_->sinks.data() + instruction.first_sink;
    for (std::uint32_t i = 0; i < instruction.sources; ++i) {
      const Source& source = program_->sources[instruction.first_source + i];
      if (source.receiver == nullptr) continue;
      const bool is_there = naming(source.peer, [&] {
        if (instruction.kind == Instruction::Kind::fold &&
            source.receiver->try_acquire(message, tag) != nullptr)
          return true;
        source.receiver->suspect(message, tag);
        return false;
      });
      if (!is_there) waiting_for.push_back(source.peer);
    }
    if (instruction.kind == Instruction::Kind::send) waits(sinks[lane.sent], message);
    if (instruction.kind != Instruction::Kind::fold) continue;
    for (std::uint32_t i = 0; i < instruction.sinks; ++i)
      if (sinks[i].sender != nullptr && sinks[i].sender->try_reserve(message) == nullptr)
        waits(sinks[i], message);
  }
  // All lanes are through, but not all they sent.
  if (unfinished_ == 0)
    for (const Sink& sink : program_->sinks)
      if (sink.sender != nullptr && sink.peer >= 0 && !sink.sender->flushed())
        waiting_for.push_back(sink.peer);
  std::sort(waiting_for.begin(), waiting_for.end());
  waiting_for.erase(std::unique(waiting_for.begin(), waiting_for.end()), waiting_for.end());
}

}  // namespace tutti::execution
