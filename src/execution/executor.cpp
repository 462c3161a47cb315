#include "execution/executor.hpp"

#include <algorithm>

namespace tutti::execution {

namespace {

// Of messages up to this many bytes a lane handles as many as it can in one go: a look at all lanes for each
// would take longer than they do.
constexpr std::uint64_t brief_message = 4096;

bool of_peer(Base base) { return base == Base::peer_input || base == Base::peer_output; }

}  // namespace

void Execution::begin(const Program& program, const Buffers& buffers, transport::Tag tag) {
  program_ = &program;
  buffers_ = buffers;
  tag_ = tag;
  lanes_.resize(program.lanes.size());
  unfinished_ = 0;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    lanes_[l] = LaneState{&program.lanes[l]};
    if (!program.lanes[l].empty()) ++unfinished_;
  }
  if (sources_.size() < program.max_operands) {
    sources_.resize(program.max_operands);
    sinks_.resize(program.max_operands);
  }
}

bool Execution::advance() {
  const bool brief = program_->message_bytes <= brief_message;
  bool moved = false;
  for (LaneState& lane : lanes_) {
    while (lane.part != lane.parts->size()) {
      const Part& part = (*lane.parts)[lane.part];
      if (!try_step(lane, part.instructions[lane.step])) break;
      moved = true;
      step_over(lane);
      if (lane.part == lane.parts->size()) --unfinished_;
      if (!brief) break;
    }
  }
  return moved;
}

void Execution::step_over(LaneState& lane) const {
  const Part& part = (*lane.parts)[lane.part];
  if (++lane.step < part.instructions.size()) return;
  lane.step = 0;
  if (++lane.iteration < part.iterations) return;
  lane.iteration = 0;
  ++lane.part;
}

bool Execution::done() {
  if (unfinished_ != 0) return false;
  if (!program_->flushes) return true;
  return std::all_of(program_->sinks.begin(), program_->sinks.end(),
                     [](const Sink& sink) { return sink.sender == nullptr || sink.sender->flushed(); });
}

std::byte* Execution::memory(Base base, Rank owner, std::uint64_t offset, std::uint64_t iteration) {
  switch (base) {
    case Base::scratch:
      return buffers_.scratch + offset;
    case Base::input:
      return const_cast<std::byte*>(buffers_.input) + offset + iteration * program_->stride;
    case Base::output:
      return buffers_.output + offset + iteration * program_->stride;
    case Base::peer_input:
    case Base::peer_output:
      break;
  }
  return buffers_.peers->at(owner, base, offset + iteration * program_->stride);
}

bool Execution::try_step(LaneState& lane, const Instruction& instruction) {
  const std::size_t bytes = program_->length(instruction, lane.iteration);
  if (bytes == 0 && lane.iteration != 0) return true;
  const transport::Tag tag = tag_ ^ instruction.salt;
  switch (instruction.kind) {
    case Instruction::Kind::send:
      return try_send(lane, instruction, lane.iteration, bytes, tag);
    case Instruction::Kind::receive: {
      const Source& source = program_->sources[instruction.first_source];
      const Sink& sink = program_->sinks[instruction.first_sink];
      return source.receiver->try_receive(memory(sink.base, sink.owner, sink.offset, lane.iteration), bytes,
                                          tag);
    }
    case Instruction::Kind::copy: {
      const Source& source = program_->sources[instruction.first_source];
      const Sink& sink = program_->sinks[instruction.first_sink];
      std::byte* const to[] = {memory(sink.base, sink.owner, sink.offset, lane.iteration)};
      kernels::copy(to, memory(source.base, source.owner, source.offset, lane.iteration), bytes,
                    instruction.streaming_sinks);
      return true;
    }
    case Instruction::Kind::fold:
      break;
  }
  return try_fold(instruction, lane.iteration, bytes, tag);
}

bool Execution::try_send(LaneState& lane, const Instruction& instruction, std::uint64_t iteration,
                         std::size_t bytes, transport::Tag tag) {
  const Source& source = program_->sources[instruction.first_source];
  const std::byte* data = memory(source.base, source.owner, source.offset, iteration);
  const bool stable = program_->stable && source.base != Base::scratch;
  for (; lane.sent < instruction.sinks; ++lane.sent)
    if (!program_->sinks[instruction.first_sink + lane.sent].sender->try_send(data, bytes, tag, stable))
      return false;
  lane.sent = 0;
  return true;
}

// out = in of a peer whose memory can only be read: straight into place.
bool Execution::copy_from_peer(const Instruction& instruction, std::uint64_t iteration, std::size_t bytes) {
  const Source& source = program_->sources[instruction.first_source];
  const Sink& sink = program_->sinks[instruction.first_sink];
  if (instruction.sources != 1 || instruction.sinks != 1 || instruction.segments != 1 ||
      sink.sender != nullptr || source.receiver != nullptr || !of_peer(source.base) || of_peer(sink.base))
    return false;
  const std::uint64_t offset = source.offset + iteration * program_->stride;
  if (buffers_.peers->at(source.owner, source.base, offset) != nullptr) return false;
  buffers_.peers->read(source.owner, source.base, offset,
                       memory(sink.base, sink.owner, sink.offset, iteration), bytes);
  bytes_direct_ += bytes;
  return true;
}

bool Execution::try_fold(const Instruction& instruction, std::uint64_t iteration, std::size_t bytes,
                         transport::Tag tag) {
  const Source* sources = program_->sources.data() + instruction.first_source;
  const Sink* sinks = program_->sinks.data() + instruction.first_sink;
  const std::size_t message = bytes * instruction.segments;
  for (std::uint32_t i = 0; i < instruction.sources; ++i)
    if (sources[i].receiver != nullptr &&
        (sources_[i] = sources[i].receiver->try_acquire(message, tag)) == nullptr)
      return false;
  for (std::uint32_t i = 0; i < instruction.sinks; ++i)
    if (sinks[i].sender != nullptr && (sinks_[i] = sinks[i].sender->try_reserve(message)) == nullptr)
      return false;
  if (bytes != 0 && !copy_from_peer(instruction, iteration, bytes)) {
    kernels::FoldModifiers modifiers;
    modifiers.streaming_sinks = instruction.streaming_sinks;
    modifiers.divisor = instruction.completes ? program_->divisor : 1;
    for (std::uint32_t i = 0; i < instruction.sources; ++i) {
      if (sources[i].receiver != nullptr) continue;
      sources_[i] = memory(sources[i].base, sources[i].owner, sources[i].offset, iteration);
      if (!of_peer(sources[i].base)) continue;
      bytes_direct_ += message;
      if (sources_[i] != nullptr) continue;
      staging_.resize(std::max(staging_.size(), program_->max_operands * program_->message_bytes));
      std::byte* room = staging_.data() + i * program_->message_bytes;
      for (std::uint32_t s = 0; s < instruction.segments; ++s)
        buffers_.peers->read(sources[i].owner, sources[i].base,
                             sources[i].offset + iteration * program_->stride + s * sources[i].segment_stride,
                             room + s * bytes, bytes);
      sources_[i] = room;
    }
    for (std::uint32_t i = 0; i < instruction.sinks; ++i) {
      if (sinks[i].sender != nullptr) continue;
      sinks_[i] = memory(sinks[i].base, sinks[i].owner, sinks[i].offset, iteration);
      if (of_peer(sinks[i].base)) bytes_direct_ += message;
    }
    for (std::uint32_t s = 0; s < instruction.segments; ++s) {
      kernels::fold_to_all(program_->kernel, program_->element_bytes, {sinks_.data(), instruction.sinks},
                           {sources_.data(), instruction.sources}, bytes / program_->element_bytes,
                           modifiers);
      for (std::uint32_t i = 0; i < instruction.sources; ++i)
        sources_[i] += sources[i].segment_stride != 0 ? sources[i].segment_stride : bytes;
      for (std::uint32_t i = 0; i < instruction.sinks; ++i)
        sinks_[i] += sinks[i].segment_stride != 0 ? sinks[i].segment_stride : bytes;
    }
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
    if (lane.part == lane.parts->size()) continue;
    const auto& instructions = (*lane.parts)[lane.part].instructions;
    bool lacks_messages = false;
    for (std::size_t step = lane.step; step < instructions.size(); ++step) {
      const Instruction& instruction = instructions[step];
      const std::size_t message = program_->length(instruction, lane.iteration) * instruction.segments;
      for (const Source& source :
           std::span(program_->sources).subspan(instruction.first_source, instruction.sources)) {
        if (source.receiver == nullptr || !source.receiver->missing(message)) continue;
        if (among(source.peer)) return true;
        lacks_messages = true;
      }
      if (step != lane.step || lacks_messages) continue;
      for (const Sink& sink : std::span(program_->sinks).subspan(instruction.first_sink, instruction.sinks))
        if (sink.sender != nullptr && among(sink.peer)) return true;
    }
  }
  return false;
}

void Execution::suspect(std::vector<Rank>& waiting_for) {
  for (const LaneState& lane : lanes_) {
    if (lane.part == lane.parts->size()) continue;
    const Instruction& instruction = (*lane.parts)[lane.part].instructions[lane.step];
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
