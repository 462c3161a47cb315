#include "transport/verbs/verbs_receiver.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/fold.hpp"
#include "transport/verbs/link.hpp"
#include "transport/verbs/stripe.hpp"

namespace tutti::transport::verbs {

Offer VerbsReceiver::offer() {
  const auto stride = slot_stride(shared_.agreed.message_bytes);
  if (!block_) {
    block_ = std::make_unique<Block>(*shared_.verbs, shared_.domains, stride * slots, Access::remote_write);
    shared_.traffic.memory_held += block_->bytes();
  }
  Offer offer;
  offer.channel = static_cast<std::uint32_t>(channel_);
  offer.stride = static_cast<std::uint32_t>(stride);
  offer.address = address_of(block_->data());
  for (std::size_t rail = 0; rail < shared_.rails.size(); ++rail)
    offer.keys.at(rail) = block_->region()->remote_key(rail);
  return offer;
}

std::byte* VerbsReceiver::payload(std::uint64_t message) const {
  return block_->data() + message % slots * slot_stride(shared_.agreed.message_bytes) + header_room;
}

Header VerbsReceiver::header(std::uint64_t message) const {
  Header header;
  std::memcpy(&header, payload(message) - sizeof header, sizeof header);
  return header;
}

void VerbsReceiver::arrived(std::uint16_t sequence, int part) {
  const auto ahead = static_cast<std::uint16_t>(sequence - static_cast<std::uint16_t>(released_));
  const auto bit = std::uint32_t{1} << part;
  if (ahead >= slots || block_ == nullptr || (parts(released_ + ahead) & bit) != 0) {
    ++shared_.credits_violated;
    return link_.violated("it sent a message without a credit for it");
  }
  parts(released_ + ahead) |= bit;
  if (part == 0) link_.take_credits(channel_, header(released_ + ahead));
}

bool VerbsReceiver::whole(std::uint64_t message, std::size_t bytes) const {
  const int count = parts_of(bytes, link_.rails(), shared_.agreed.stripe_from);
  return parts_[message % slots] == (std::uint32_t{1} << count) - 1;
}

bool VerbsReceiver::complete(std::size_t bytes, Tag tag) {
  if ((parts(released_) & 1) == 0) return false;  // the first part brings the header
  const Header found = header(released_);
  if (found.magic != Header::expected_magic || found.sequence != static_cast<std::uint32_t>(released_)) {
    link_.violated("it wrote no message of this version of tutti");
    return false;
  }
  if (found.tag != tag || found.bytes != bytes) throw Mismatch{tag, found.tag};
  return whole(released_, bytes);
}

bool VerbsReceiver::empty() const {
  return std::ranges::all_of(parts_, [](std::uint32_t bits) { return bits == 0; });
}

std::uint64_t VerbsReceiver::complete_count() const {
  auto count = released_;
  while (count < released_ + slots && (parts_[count % slots] & 1) != 0 && whole(count, header(count).bytes))
    ++count;
  return count;
}

const std::byte* VerbsReceiver::try_acquire(std::size_t bytes, Tag tag) {
  if (complete(bytes, tag)) return payload(released_);
  link_.receive_on(channel_);
  shared_.poll();
  if (complete(bytes, tag)) return payload(released_);
  link_.check();
  return nullptr;
}

void VerbsReceiver::release() {
  assert((parts(released_) & 1) != 0);
  shared_.traffic.bytes_received += header(released_).bytes;
  ++shared_.traffic.messages_received;
  parts(released_) = 0;
  ++released_;
  link_.return_credit(channel_, released_);
}

bool VerbsReceiver::try_receive(std::byte* into, std::size_t bytes, Tag tag) {
  const std::byte* found = try_acquire(bytes, tag);
  if (found == nullptr) return false;
  kernels::copy_block(into, found, bytes);
  shared_.traffic.bytes_copied += bytes;
  release();
  return true;
}

}  // namespace tutti::transport::verbs
