#include "transport/verbs/verbs_sender.hpp"

#include <algorithm>
#include <cassert>

#include "kernels/fold.hpp"
#include "transport/verbs/device_memory.hpp"
#include "transport/verbs/link.hpp"

namespace tutti::transport::verbs {

bool VerbsSender::full() {
  if (end_ - freed_ < slots) return false;
  shared_.poll();
  link_.check();
  return end_ - freed_ >= slots;
}

bool VerbsSender::fits_inline(std::size_t bytes) const {
  return bytes <= sizeof(Outgoing::small) &&
         sizeof(Header) + bytes <= static_cast<std::size_t>(link_.max_inline());
}

std::byte* VerbsSender::room_for(std::size_t bytes) {
  Outgoing& mine = entry(end_);
  if (!mine.slot && fits_inline(bytes)) return mine.small.data();
  if (!mine.slot) mine.slot = shared_.pool->take();
  return mine.slot.payload();
}

std::byte* VerbsSender::try_reserve(std::size_t bytes) {
  assert(bytes <= shared_.agreed.message_bytes);
  return full() ? nullptr : room_for(bytes);
}

void VerbsSender::publish(std::size_t bytes, Tag tag) { push(room_for(bytes), bytes, tag); }

bool VerbsSender::try_send(const std::byte* data, std::size_t bytes, Tag tag, bool stable) {
  assert(bytes <= shared_.agreed.message_bytes);
  if (full()) return false;
  if (stable && !fits_inline(bytes)) {
    if (auto region = shared_.cache->find(data, bytes)) {
      entry(end_).region = std::move(region);
      push(data, bytes, tag);
      return true;
    }
  }
  std::byte* room = room_for(bytes);
  kernels::copy_block(room, data, bytes);
  shared_.traffic.bytes_copied += bytes;
  push(room, bytes, tag);
  return true;
}

bool VerbsSender::try_place(const Placement& placement, const std::byte* data, std::size_t bytes, Tag tag) {
  if (full()) return false;
  const PlacedAddress to = unpack(placement.to);
  auto region = dynamic_cast<const VerbsDeviceMemory&>(*placement.from).region();
  assert(region->holds(placement.data, placement.bytes));
  entry(end_).placed = {placement.data, placement.bytes, to.begin + placement.offset,
                        to.keys.at(link_.rail_of(channel_, 0)), std::move(region)};
  shared_.traffic.bytes_sent += placement.bytes;
  return try_send(data, bytes, tag, false);
}

void VerbsSender::push(const std::byte* data, std::size_t bytes, Tag tag) {
  Outgoing& mine = entry(end_);
  mine.header = {
      .tag = tag, .bytes = static_cast<std::uint32_t>(bytes), .sequence = static_cast<std::uint32_t>(end_)};
  mine.data = data;
  mine.inlined = data == mine.small.data();
  ++end_;
  ++shared_.traffic.messages_sent;
  shared_.traffic.bytes_sent += bytes;
  pump();
}

void VerbsSender::pump() {
  const auto before = posted_;
  while (posted_ < end_ && posted_ - credited_ < slots && link_.post(channel_, posted_, entry(posted_)))
    ++posted_;
  if (posted_ == before) return;
  link_.ring();
  free_done();
}

bool VerbsSender::done(std::uint64_t message) {
  const Outgoing& it = entry(message);
  // A credit proves that the bytes arrived, so a copy may be overwritten. Memory that may be deregistered
  // waits for the device's own word: it might still repeat packets whose acknowledgement was lost.
  const bool copied = it.region == nullptr && it.placed.region == nullptr;
  return it.parts_pending == 0 || (copied && (it.inlined || message < credited_)) || message < delivered_;
}

void VerbsSender::free_done() {
  for (; freed_ < posted_ && done(freed_); ++freed_) {
    entry(freed_).slot.reset();
    entry(freed_).region.reset();
    entry(freed_).placed = {};
  }
}

bool VerbsSender::flushed() {
  const auto settled = [this] {
    if (posted_ < end_) return false;
    for (auto message = freed_; message < end_; ++message)
      if (entry(message).region != nullptr || entry(message).placed.region != nullptr) return false;
    return true;
  };
  if (settled()) return true;
  shared_.poll();
  if (settled()) return true;
  link_.check();
  return false;
}

void VerbsSender::credit(std::uint16_t released) {
  const auto more = static_cast<std::uint16_t>(released - static_cast<std::uint16_t>(credited_));
  if (more > posted_ - credited_) {
    ++shared_.credits_violated;
    return link_.violated("it returned credits that it never had");
  }
  credited_ += more;
  free_done();
  pump();
}

void VerbsSender::part_done(std::uint64_t sequence) {
  Outgoing& it = entry(sequence);
  if (it.header.sequence != static_cast<std::uint32_t>(sequence))
    return;  // freed by its credit, and used anew
  --it.parts_pending;
  free_done();
  pump();
}

void VerbsSender::delivered(std::uint64_t count) {
  delivered_ = std::min(count, posted_);
  free_done();
}

}  // namespace tutti::transport::verbs
