#include "gpu/flatten.hpp"

#include <fmt/format.h>

#include <cassert>

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
device::Operand operand(const SourceOrSink& from, const NamedChannels::End* end) {
  if (end != nullptr)
    return {.place = device::Place::message,
            .channel = static_cast<std::uint8_t>(end->channel()),
            .rank = from.peer};
  return {.place = place(from.base),
          .rank = from.owner,
          .offset = from.offset,
          .segment_stride = from.segment_stride};
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
    throw Error(ErrorCode::unsupported,
                fmt::format("a step of {} operands cannot run on a GPU; the most are {}",
                            program.max_operands, device::max_operands));
  Parts to;
  for (const auto& source : program.sources)
    to.operands.push_back(operand(source, static_cast<const NamedChannels::End*>(source.receiver)));
  const auto first_sink = static_cast<std::uint32_t>(to.operands.size());
  for (const auto& sink : program.sinks)
    to.operands.push_back(operand(sink, static_cast<const NamedChannels::End*>(sink.sender)));

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

  if (to.lanes.empty()) to.lanes.emplace_back();  // all ranks launch a kernel for each call
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

}  // namespace tutti::gpu
