#include "execution/executor.hpp"

#include <algorithm>

#include "base/brief_copy.hpp"

namespace tutti::execution {

namespace {

// Of messages up to this many bytes a lane handles as many as it can in one go: a look at all lanes for each
// would take longer than they do.
constexpr std::uint64_t brief_message = 4096;

bool of_peer(Base base) { return base == Base::peer_input || base == Base::peer_output; }

}  // namespace

inline void Execution::enter(LaneState& lane) {
  if (lane.part == lane.parts_end) {
    lane.next = nullptr;
    --unfinished_;
    return;
  }
  lane.next = lane.part->instructions.data();
  lane.end = lane.next + lane.part->instructions.size();
}

void Execution::begin(const Program& program, const Buffers& buffers, transport::Tag tag) {
  program_ = &program;
  peers_ = buffers.peers;
  bases_ = {const_cast<std::byte*>(buffers.input), buffers.output, buffers.scratch};
  strides_ = {program.stride, program.stride, 0};
  if (lanes_.size() != program.lanes.size()) lanes_.resize(program.lanes.size());
  if (sources_.size() < program.max_operands) {
    sources_.resize(program.max_operands);
    sinks_.resize(program.max_operands);
  }
  begin_again(tag);
}

void Execution::begin_again(transport::Tag tag) {
  tag_ = tag;
  unfinished_ = lanes_.size();
  const std::vector<Part>* parts = program_->lanes.data();
  for (LaneState& lane : lanes_) {
    lane.part = parts->data();
    lane.parts_end = lane.part + parts->size();
    lane.iteration = 0;
    lane.sent = 0;
    enter(lane);
    ++parts;
  }
}

inline void Execution::next_iteration(LaneState& lane) {
  if (++lane.iteration < lane.part->iterations) {
    lane.next = lane.part->instructions.data();
    return;
  }
  lane.iteration = 0;
  ++lane.part;
  enter(lane);
}

// Inlined by `advance`: of short messages there are several in a fraction of a microsecond.
inline bool Execution::try_step(LaneState& lane) {
  const Instruction& instruction = *lane.next;
  const std::size_t bytes = program_->length(instruction, lane.iteration);
  if (bytes == 0 && lane.iteration != 0) return true;
  const transport::Tag tag = tag_ ^ instruction.salt;
  if (instruction.kind == Instruction::Kind::receive) {
    const Sink& sink = *sinks_of(instruction);
    return sources_of(instruction)
        ->receiver->try_receive(local(sink.base, sink.offset, lane.iteration), bytes, tag);
  }
  if (instruction.kind == Instruction::Kind::send) {
    if (instruction.sinks != 1) return send_to_several(lane, bytes, tag);
    const Source& source = *sources_of(instruction);
    return sinks_of(instruction)
        ->sender->try_send(local(source.base, source.offset, lane.iteration), bytes, tag, stable(source));
  }
  if (instruction.kind == Instruction::Kind::fold) return try_fold(instruction, lane.iteration, bytes, tag);
  copy(instruction, lane.iteration, bytes);
  return true;
}

bool Execution::send_to_several(LaneState& lane, std::size_t bytes, transport::Tag tag) {
  const Instruction& instruction = *lane.next;
  const Source& source = *sources_of(instruction);
  const std::byte* const data = local(source.base, source.offset, lane.iteration);
  for (; lane.sent < instruction.sinks; ++lane.sent)
    if (!sinks_of(instruction)[lane.sent].sender->try_send(data, bytes, tag, stable(source))) return false;
  lane.sent = 0;
  return true;
}

void Execution::copy(const Instruction& instruction, std::uint64_t iteration, std::size_t bytes) {
  const Source& source = *sources_of(instruction);
  const Sink& sink = *sinks_of(instruction);
  std::byte* const to = local(sink.base, sink.offset, iteration);
  const std::byte* const from = local(source.base, source.offset, iteration);
  if (bytes <= brief_copy_most)
    copy_brief(to, from, bytes);
  else
    kernels::copy({&to, 1}, from, bytes, instruction.streaming_sinks);
}

bool Execution::advance() {
  const bool brief = program_->message_bytes <= brief_message;
  bool moved = false;
  for (LaneState& lane : lanes_) {
    while (lane.next != nullptr && try_step(lane)) {
      moved = true;
      if (++lane.next == lane.end) next_iteration(lane);
      if (!brief) break;
    }
  }
  return moved;
}

bool Execution::flushed() const {
  return std::all_of(program_->sinks.begin(), program_->sinks.end(),
                     [](const Sink& sink) { return sink.sender == nullptr || sink.sender->flushed(); });
}

// out = in of a peer whose memory can only be read: straight into place.
bool Execution::copy_from_peer(const Instruction& instruction, std::uint64_t iteration, std::size_t bytes) {
  const Source& source = *sources_of(instruction);
  const Sink& sink = *sinks_of(instruction);
  if (instruction.sources != 1 || instruction.sinks != 1 || instruction.segments != 1 ||
      sink.sender != nullptr || source.receiver != nullptr || !of_peer(source.base) || of_peer(sink.base))
    return false;
  const std::uint64_t offset = source.offset + iteration * program_->stride;
  if (peers_->at(source.owner, source.base, offset) != nullptr) return false;
  peers_->read(source.owner, source.base, offset, local(sink.base, sink.offset, iteration), bytes);
  bytes_direct_ += bytes;
  return true;
}

// Where the operands in peers' memory are; of what can only be read, a copy.
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
  }
}

void Execution::fold(const Instruction& instruction, std::size_t bytes) {
  kernels::FoldModifiers modifiers;
  modifiers.streaming_sinks = instruction.streaming_sinks;
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
      if ((sources_[i] = sources[i].receiver->try_acquire(message, tag)) == nullptr) return false;
    } else if (!of_peer(sources[i].base)) {
      sources_[i] = local(sources[i].base, sources[i].offset, iteration);
    }
  }
  for (std::uint32_t i = 0; i < instruction.sinks; ++i) {
    if (sinks[i].sender != nullptr) {
      if ((sinks_[i] = sinks[i].sender->try_reserve(message)) == nullptr) return false;
    } else if (!of_peer(sinks[i].base)) {
      sinks_[i] = local(sinks[i].base, sinks[i].offset, iteration);
    }
  }
  if (bytes != 0 && (peers_ == nullptr || !copy_from_peer(instruction, iteration, bytes))) {
    if (peers_ != nullptr) reach_peers(instruction, iteration, bytes);
    fold(instruction, bytes);
  }
  for (std::uint32_t i = 0; i < instruction.sources; ++i)
    if (sources[i].receiver != nullptr) sources[i].receiver->release();
  for (std::uint32_t i = 0; i < instruction.sinks; ++i)
    if (sinks[i].sender != nullptr) sinks[i].sender->publish(message, tag);
  return true;
}

bool Execution::waits_for_any(std::span<const std::uint8_t> ranks) const {
  const auto among = [&](Rank peer) {
    return peer < 0 ? std::any_of(ranks.begin(), ranks.end(), [](auto r) { return r != 0; })
                    : ranks[static_cast<std::size_t>(peer)] != 0;
  };
  for (const LaneState& lane : lanes_) {
    bool lacks_messages = false;
    for (const Instruction* next = lane.next; next != nullptr && next != lane.end; ++next) {
      const Instruction& instruction = *next;
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
  return false;
}

void Execution::suspect(std::vector<Rank>& waiting_for) {
  for (const LaneState& lane : lanes_) {
    if (lane.next == nullptr) continue;
    const Instruction& instruction = *lane.next;
    const std::size_t message = program_->length(instruction, lane.iteration) * instruction.segments;
    const transport::Tag tag = tag_ ^ instruction.salt;
    const Sink* sinks = program_->sinks.data() + instruction.first_sink;
    for (std::uint32_t i = 0; i < instruction.sources; ++i) {
      const Source& source = program_->sources[instruction.first_source + i];
      if (source.receiver == nullptr) continue;
      if (instruction.kind == Instruction::Kind::fold &&
          source.receiver->try_acquire(message, tag) != nullptr)
        continue;
      source.receiver->suspect(message, tag);
      waiting_for.push_back(source.peer);
    }
    if (instruction.kind == Instruction::Kind::send && sinks[lane.sent].peer >= 0)
      waiting_for.push_back(sinks[lane.sent].peer);
    if (instruction.kind != Instruction::Kind::fold) continue;
    for (std::uint32_t i = 0; i < instruction.sinks; ++i)
      if (sinks[i].sender != nullptr && sinks[i].peer >= 0 &&
          sinks[i].sender->try_reserve(message) == nullptr)
        waiting_for.push_back(sinks[i].peer);
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
