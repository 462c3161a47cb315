#include "gpu/carrier.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <tutti/error.hpp>

#include "gpu/device/order.hpp"

namespace tutti::gpu {

namespace {

constexpr transport::Tag frame_tag = 0x6770'7566, bytes_tag = 0x6770'7562;

std::uint64_t* word(std::byte* box, std::size_t offset) {
  return reinterpret_cast<std::uint64_t*>(box + offset);
}

// Sending from an outbox without a copy is worth a try, no more.
std::shared_ptr<void> try_register(transport::Transport& transport, const std::byte* data,
                                   std::size_t bytes) {
  try {
    return transport.register_memory(data, bytes);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

Proxy::Carrier::Carrier(transport::Transport& transport, const Device& device, const device::Mailbox& layout,
                        const Line& line, int which, int all)
    : device_(device),
      layout_(layout),
      line_(line),
      which_(static_cast<std::size_t>(which)),
      all_(static_cast<std::size_t>(all)),
      longest_(transport.max_message_bytes()),
      registered_(line.direct == nullptr ? try_register(transport, line.out_slots, layout.bytes_of_slots())
                                         : nullptr),
      sender_(transport.sender(line.peer, which)),
      receiver_(transport.receiver(line.peer, which)),
      counts_((std::size_t{device::channels} * layout.slices - which_ + all_ - 1) / all_) {}

// Calls that nobody saw in time are left out.
std::optional<Frame> Proxy::Carrier::next_call() {
  Frame frame;
  frame.kind = Frame::Kind::call;
  frame.flag = device::load_acquire_system(word(line_.outbox, device::Mailbox::call(calls_ + 1)));
  const auto ahead = static_cast<std::int32_t>(static_cast<std::uint32_t>(frame.flag >> 32) -
                                               static_cast<std::uint32_t>(calls_));
  if (ahead <= 0) return std::nullopt;
  frame.number = calls_ += static_cast<std::uint64_t>(ahead);
  return frame;
}

// What is to be sent next: of its FIFOs in turn, so that none waits for a busy one. The first carrier of a
// pair tells of calls, too.
std::optional<Frame> Proxy::Carrier::next() {
  for (std::size_t tries = 0; tries < counts_.size(); ++tries) {
    const std::size_t turn = turn_++ % counts_.size(), fifo = which_ + turn * all_;
    if (fifo == 0)
      if (const auto call = next_call()) return call;
    Counts& counts = counts_[turn];
    Frame frame;
    frame.channel = static_cast<std::uint8_t>(fifo / layout_.slices);
    frame.slice = static_cast<std::uint16_t>(fifo % layout_.slices);
    const std::uint64_t taken =
        device::load_acquire_system(word(line_.outbox, layout_.taken(frame.channel, frame.slice)));
    if (taken != counts.taken) {
      frame.kind = Frame::Kind::taken;
      frame.number = counts.taken = taken;
      return frame;
    }
    const std::uint64_t message = counts.messages;
    frame.flag =
        device::load_acquire_system(word(line_.outbox, layout_.flag(frame.channel, frame.slice, message)));
    if (frame.flag >> 32 != static_cast<std::uint32_t>(message + 1)) continue;
    ++counts.messages;
    frame.number = message;
    frame.bytes =
        static_cast<std::uint32_t>(*word(line_.outbox, layout_.size(frame.channel, frame.slice, message)));
    return frame;
  }
  return std::nullopt;
}

std::size_t Proxy::Carrier::part(const Parcel& parcel) const {
  return std::min<std::size_t>(parcel.frame.bytes - parcel.moved, longest_);
}

// The slot stays as it is until the peer has taken the message, whoever reads it.
bool Proxy::Carrier::announce(Parcel& parcel) {
  const Frame& frame = parcel.frame;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&frame);
  if (line_.direct == nullptr || frame.bytes == 0) {
    parcel.announced = sender_.try_send(bytes, sizeof frame, frame_tag, false);
  } else {
    const std::size_t slot = layout_.slot(frame.channel, frame.slice, frame.number);
    parcel.announced = sender_.try_place(
        {line_.direct, line_.out_slots + slot, frame.bytes, line_.theirs, line_.their_slots + slot}, bytes,
        sizeof frame, frame_tag);
    if (parcel.announced) parcel.moved = frame.bytes;
  }
  return parcel.announced;
}

bool Proxy::Carrier::send() {
  if (!out_) {
    const auto frame = next();
    if (!frame) return false;
    out_ = Parcel{*frame};
  }
  Parcel& parcel = *out_;
  if (!parcel.announced && !announce(parcel)) return false;
  const std::byte* const slot =
      line_.out_slots + layout_.slot(parcel.frame.channel, parcel.frame.slice, parcel.frame.number);
  while (parcel.moved < parcel.frame.bytes) {
    const std::size_t bytes = part(parcel);
    if (!sender_.try_send(slot + parcel.moved, bytes, bytes_tag, true)) return false;
    parcel.moved += bytes;
  }
  out_.reset();
  return true;
}

void Proxy::Carrier::check(const Frame& frame) const {
  if (frame.channel < device::channels && frame.slice < layout_.slices && frame.bytes <= layout_.slot_bytes)
    return;
  throw Error(ErrorCode::mismatch, fmt::format("rank {} sent what no GPU of this version sends", line_.peer),
              {line_.peer});
}

bool Proxy::Carrier::receive() {
  if (!in_) in_ = Parcel{};
  Parcel& parcel = *in_;
  if (!parcel.announced) {
    parcel.announced =
        receiver_.try_receive(reinterpret_cast<std::byte*>(&parcel.frame), sizeof parcel.frame, frame_tag);
    if (!parcel.announced) return false;
    check(parcel.frame);
    if (line_.direct != nullptr && parcel.frame.bytes != 0) {
      parcel.moved = parcel.frame.bytes;
      if (device_.flushes) device_.api->flush_network_writes();
    }
  }
  std::byte* const slot =
      line_.in_slots + layout_.slot(parcel.frame.channel, parcel.frame.slice, parcel.frame.number);
  while (parcel.moved < parcel.frame.bytes) {
    const std::size_t bytes = part(parcel);
    if (!receiver_.try_receive(slot + parcel.moved, bytes, bytes_tag)) return false;
    parcel.moved += bytes;
  }
  deliver(parcel.frame);
  in_.reset();
  return true;
}

void Proxy::Carrier::deliver(const Frame& frame) const {
  if (frame.kind == Frame::Kind::call)
    device::store_release_system(word(line_.inbox, device::Mailbox::call(frame.number)), frame.flag);
  else if (frame.kind == Frame::Kind::taken)
    device::store_release_system(word(line_.inbox, layout_.taken(frame.channel, frame.slice)), frame.number);
  else
    device::store_release_system(word(line_.inbox, layout_.flag(frame.channel, frame.slice, frame.number)),
                                 frame.flag);
}

}  // namespace tutti::gpu
