#include "gpu/messages.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "communicator/check.hpp"
#include "gpu/device/executor.hpp"
#include "gpu/parts.hpp"

namespace tutti::gpu {

namespace {

device::Operand message_with(Rank peer) {
  constexpr std::uint8_t channel = device::channels - 1;  // schedules use the others first
  return {.place = device::Place::message, .channel = channel, .rank = peer};
}

device::Operand block(device::Place place, std::int32_t number) { return {.place = place, .rank = number}; }

// One step that moves `bytes` from an operand to another, as a part of its own.
void add_move(Parts& to, std::uint64_t bytes, std::uint32_t salt, const device::Operand& from,
              const device::Operand& into) {
  const auto first = static_cast<std::uint32_t>(to.operands.size());
  to.operands.insert(to.operands.end(), {from, into});
  const std::uint64_t pieces = (bytes + to.header.stride - 1) / to.header.stride;
  to.parts.push_back(
      {std::max<std::uint64_t>(pieces, 1), 0, static_cast<std::uint32_t>(to.instructions.size()), 1});
  to.instructions.push_back({.bytes = bytes,
                             .first_source = first,
                             .first_sink = first + 1,
                             .sources = 1,
                             .sinks = 1,
                             .salt = salt});
}

}  // namespace

std::vector<std::vector<Call>> message_launches(std::span<const Call> calls, int ranks) {
  if (calls.size() <= device::max_buffers) return {std::vector<Call>(calls.begin(), calls.end())};
  const auto of_each = static_cast<std::size_t>(device::max_buffers / (2 * ranks));
  std::map<std::pair<Operation, Rank>, std::size_t> so_far;
  std::vector<std::vector<Call>> launches;
  for (const Call& call : calls) {
    const std::size_t launch = so_far[{call.operation, call.root}]++ / of_each;
    if (launch == launches.size()) launches.emplace_back();
    launches[launch].push_back(call);
  }
  return launches;
}

std::vector<std::byte> message_program(std::span<const Call> calls, Rank rank, int slices,
                                       const device::Arena& arena) {
  Parts to;
  to.header.stride = arena.slot_bytes;
  to.header.slices = static_cast<std::uint32_t>(slices);
  to.header.collective = false;
  std::map<std::pair<Operation, Rank>, std::vector<std::size_t>> by_lane;
  for (std::size_t i = 0; i < calls.size(); ++i) by_lane[{calls[i].operation, calls[i].root}].push_back(i);
  for (const auto& [what, members] : by_lane) {
    const auto [operation, peer] = what;
    if (peer == rank && operation == Operation::receive) continue;  // with its sends
    to.lanes.push_back(
        {static_cast<std::uint32_t>(to.parts.size()), static_cast<std::uint32_t>(members.size())});
    for (std::size_t m = 0; m < members.size(); ++m) {
      const std::size_t i = members[m];
      const std::uint64_t bytes = bytes_of_message(calls[i]);
      const std::uint32_t salt = device::salt_of(bytes) ^ static_cast<std::uint32_t>(calls[i].type);
      if (peer == rank)
        add_move(to, bytes, salt, block(device::Place::buffer, static_cast<std::int32_t>(i)),
                 block(device::Place::buffer,
                       static_cast<std::int32_t>(by_lane.at({Operation::receive, rank})[m])));
      else if (operation == Operation::send)
        add_move(to, bytes, salt, block(device::Place::buffer, static_cast<std::int32_t>(i)),
                 message_with(peer));
      else
        add_move(to, bytes, salt, message_with(peer),
                 block(device::Place::buffer, static_cast<std::int32_t>(i)));
    }
  }
  return pack(to);
}

std::vector<std::byte> counted_exchange_program(Rank rank, int size, int slices, const device::Arena& arena) {
  using device::Place;
  Parts to;
  to.header.stride = arena.slot_bytes;
  to.header.slices = static_cast<std::uint32_t>(slices);
  to.header.counted = true;
  const auto parts = static_cast<std::uint32_t>(size);
  to.lanes = {{0, parts}, {parts, parts - 1}};
  // Everybody sends to who receives from it at that step, so that nobody waits for who waits for him.
  add_move(to, 0, 0, block(Place::input, rank), block(Place::output, rank));
  for (int step = 1; step < size; ++step) {
    const Rank peer = (rank + step) % size;
    add_move(to, 0, 0, block(Place::input, peer), message_with(peer));
  }
  for (int step = 1; step < size; ++step) {
    const Rank peer = (rank + size - step) % size;
    add_move(to, 0, 0, message_with(peer), block(Place::output, peer));
  }
  return pack(to);
}

}  // namespace tutti::gpu
