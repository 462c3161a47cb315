#include "gpu/flatten.hpp"

#include <cassert>
#include <cstring>
#include <string>
#include <string_view>

#include <tutti/error.hpp>

#include "gpu/device/packets.hpp"
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

template <class T>
std::uint32_t append(std::vector<std::byte>& to, const std::vector<T>& array) {
  const std::size_t at = (to.size() + alignof(T) - 1) / alignof(T) * alignof(T);
  to.resize(at + array.size() * sizeof(T));
  if (!array.empty()) std::memcpy(to.data() + at, array.data(), array.size() * sizeof(T));
  return static_cast<std::uint32_t>(at);
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
  std::vector<device::Operand> operands;
  for (const auto& source : program.sources) {
    const auto* end = static_cast<const NamedChannels::End*>(source.receiver);
    operands.push_back(operand(source, end, end == nullptr ? 0 : end->channel()));
  }
  const auto first_sink = static_cast<std::uint32_t>(operands.size());
  for (const auto& sink : program.sinks) {
    const auto* end = static_cast<const NamedChannels::End*>(sink.sender);
    operands.push_back(operand(sink, end, end == nullptr ? 0 : end->channel()));
  }

  std::vector<device::Lane> lanes;
  std::vector<device::Part> parts;
  std::vector<device::Instruction> instructions;
  for (const auto& lane : program.lanes) {
    lanes.push_back({static_cast<std::uint32_t>(parts.size()), static_cast<std::uint32_t>(lane.size())});
    std::uint64_t iterations = 0;
    for (const auto& part : lane) {
      // Steps of a one-sided program begin anew, since each is divided like the memory it works on.
      parts.push_back({part.iterations, settings.one_sided ? 0 : iterations,
                       static_cast<std::uint32_t>(instructions.size()),
                       static_cast<std::uint32_t>(part.instructions.size())});
      iterations += part.iterations;
      for (const auto& i : part.instructions)
        instructions.push_back({i.bytes, i.first_source, first_sink + i.first_sink,
                                static_cast<std::uint16_t>(i.sources), static_cast<std::uint16_t>(i.sinks),
                                i.segments, i.salt, i.completes, i.whole});
    }
  }

  device::Program header;
  header.stride = program.stride;
  header.scratch_bytes = program.scratch_bytes;
  header.divisor = program.divisor;
  header.lanes = static_cast<std::uint32_t>(lanes.size());
  header.slices = static_cast<std::uint32_t>(settings.slices);
  if (settings.slices == 1 && !settings.one_sided)
    header.packet_limit = static_cast<std::uint32_t>(settings.packet_limit);
  header.type = settings.type;
  header.op = settings.op;
  header.one_sided = settings.one_sided;
  std::vector<std::byte> flat(sizeof header);
  header.lanes_at = append(flat, lanes);
  header.parts_at = append(flat, parts);
  header.instructions_at = append(flat, instructions);
  header.operands_at = append(flat, operands);
  std::memcpy(flat.data(), &header, sizeof header);
  return flat;
}

}  // namespace tutti::gpu
