#include "gpu/flatten.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <string_view>

#include <tutti/error.hpp>

#include "gpu/device/packets.hpp"
#include "gpu/parts.hpp"
#include "transport/channel.hpp"

namespace tutti::gpu {

static_assert(device::credits == transport::channel_credits && device::channels == max_channels &&
              device::max_lanes == max_lanes);

namespace {

[[noreturn]] void not_on_the_host() {
  assert(false && "a device program was run on the host");
  __builtin_trap();
}

device::Place place(execution::Base base) {
  switch (base) {
    case execution::Base::input:
      return device::Place::input;
    case execution::Base::output:
      return device::Place::output;
    case execution::Base::scratch:
      return device::Place::scratch;
    case execution::Base::peer_input:
      return device::Place::peer_input;
    case execution::Base::peer_output:
      return device::Place::peer_output;
  }
  return device::Place::input;
}

// Sources and sinks differ in one name only.
template <class SourceOrSink>
device::Operand operand(const SourceOrSink& from, const void* end, int channel) {
  device::Operand o;
  if (end != nullptr) {
    o.place = device::Place::message;
    o.channel = static_cast<std::uint8_t>(channel);
    o.rank = from.peer;
    return o;
  }
  o.place = place(from.base);
  o.rank = from.owner;
  o.offset = from.offset;
  o.segment_stride = from.segment_stride;
  return o;
}

}  // namespace

std::byte* NamedChannels::End::try_reserve(std::size_t) { not_on_the_host(); }
void NamedChannels::End::publish(std::size_t, transport::Tag) { not_on_the_host(); }
bool NamedChannels::End::try_send(const std::byte*, std::size_t, transport::Tag, bool) { not_on_the_host(); }
bool NamedChannels::End::flushed() { not_on_the_host(); }
const std::byte* NamedChannels::End::try_acquire(std::size_t, transport::Tag) { not_on_the_host(); }
void NamedChannels::End::release() { not_on_the_host(); }
bool NamedChannels::End::try_receive(std::byte*, std::size_t, transport::Tag) { not_on_the_host(); }

std::vector<std::byte> flatten(const execution::Program& program, const FlattenSettings& settings) {
  if (program.max_operands > static_cast<std::uint32_t>(device::max_operands))
    throw Error(ErrorCode::unsupported, "a step of " + std::to_string(program.max_operands) +
                                            " operands cannot run on a GPU; the most are " +
                                            std::to_string(device::max_operands));
  Parts to;
  for (const auto& source : program.sources) {
    const auto* end = static_cast<const NamedChannels::End*>(source.receiver);
    to.operands.push_back(operand(source, end, end == nullptr ? 0 : end->channel()));
  }
  const auto first_sink = static_cast<std::uint32_t>(to.operands.size());
  for (const auto& sink : program.sinks) {
    const auto* end = static_cast<const NamedChannels::End*>(sink.sender);
    to.operands.push_back(operand(sink, end, end == nullptr ? 0 : end->channel()));
  }

  for (const auto& lane : program.lanes) {
    to.lanes.push_back(
        {static_cast<std::uint32_t>(to.parts.size()), static_cast<std::uint32_t>(lane.size())});
    std::uint64_t iterations = 0;
    for (const auto& part : lane) {
      // Steps of a one-sided program begin anew, since each is divided like the memory it works on.
      to.parts.push_back({part.iterations, settings.one_sided ? 0 : iterations,
                          static_cast<std::uint32_t>(to.instructions.size()),
                          static_cast<std::uint32_t>(part.instructions.size())});
      iterations += part.iterations;
      for (const auto& i : part.instructions)
        to.instructions.push_back({i.bytes, i.first_source, first_sink + i.first_sink,
                                   static_cast<std::uint16_t>(i.sources), static_cast<std::uint16_t>(i.sinks),
                                   i.segments, i.salt, i.completes, i.whole});
    }
  }

  device::Program& header = to.header;
  header.stride = program.stride;
  header.scratch_bytes = program.scratch_bytes;
  header.divisor = program.divisor;
  header.slices = static_cast<std::uint32_t>(settings.slices);
  if (settings.slices == 1 && !settings.one_sided)
    header.packet_limit = static_cast<std::uint32_t>(settings.packet_limit);
  header.type = settings.type;
  header.op = settings.op;
  header.one_sided = settings.one_sided;
  return pack(to);
}

std::vector<std::byte> message_program(std::span<const Call> calls, Rank rank, const device::Arena& arena) {
  constexpr int channel = device::channels - 1;  // schedules use the others first
  constexpr std::uint32_t most_slices = 4;
  Parts to;
  to.header.stride = arena.slot_bytes;
  to.header.slices = std::min(arena.slices, most_slices);
  const auto message = [&](Rank peer) {
    device::Operand o;
    o.place = device::Place::message;
    o.channel = channel;
    o.rank = peer;
    return o;
  };
  const auto buffer = [&](std::size_t call) {
    device::Operand o;
    o.place = device::Place::buffer;
    o.rank = static_cast<std::int32_t>(call);
    return o;
  };
  // One step that moves `bytes` from an operand to another.
  const auto move = [&](std::uint64_t bytes, const device::Operand& from, const device::Operand& into) {
    const auto first = static_cast<std::uint32_t>(to.operands.size());
    to.operands.insert(to.operands.end(), {from, into});
    const std::uint64_t pieces = (bytes + to.header.stride - 1) / to.header.stride;
    to.parts.push_back(
        {std::max<std::uint64_t>(pieces, 1), 0, static_cast<std::uint32_t>(to.instructions.size()), 1});
    device::Instruction instruction;
    instruction.bytes = bytes;
    instruction.first_source = first;
    instruction.first_sink = first + 1;
    instruction.sources = instruction.sinks = 1;
    instruction.salt = static_cast<std::uint32_t>((bytes + 1) * 0x9E3779B97F4A7C15ULL >> 32);
    to.instructions.push_back(instruction);
  };
  std::map<std::pair<Operation, Rank>, std::vector<std::size_t>> by_lane;
  for (std::size_t i = 0; i < calls.size(); ++i) by_lane[{calls[i].operation, calls[i].root}].push_back(i);
  for (const auto& [what, members] : by_lane) {
    const auto [operation, peer] = what;
    if (peer == rank && operation == Operation::receive) continue;  // with its sends
    to.lanes.push_back(
        {static_cast<std::uint32_t>(to.parts.size()), static_cast<std::uint32_t>(members.size())});
    for (std::size_t m = 0; m < members.size(); ++m) {
      const std::size_t i = members[m];
      const std::uint64_t bytes = calls[i].count * size_of(calls[i].type);
      if (peer == rank)
        move(bytes, buffer(i), buffer(by_lane.at({Operation::receive, rank})[m]));
      else if (operation == Operation::send)
        move(bytes, buffer(i), message(peer));
      else
        move(bytes, message(peer), buffer(i));
    }
  }
  return pack(to);
}

}  // namespace tutti::gpu
