#include "transport/shm/message_fifo.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/fold.hpp"

namespace tutti::transport::shm {

namespace {

// Of the second unit's word, where a message is offered; 0 is there if it is not.
constexpr Tag offer_mark = 0x6F666672;
// While the receiver copies a part, the sender copies the next one. The same at both ends.
std::size_t part_of(std::size_t bytes, const FifoMemory& memory) {
  return std::clamp((bytes / 4 + page - 1) / page * page, long_message,
                    std::max(memory.longest, long_message));
}

}  // namespace

MessageSender::MessageSender(Wakes& wakes, const FifoMemory& memory, Rank reader, Traffic& traffic,
                             const DirectMemory& direct)
    : ShmSender(wakes, memory, {reader}, traffic), direct_(direct) {}

std::byte* MessageSender::try_reserve(std::size_t bytes) {
  assert(bytes < long_message);
  return ShmSender::try_reserve(bytes);
}

void MessageSender::publish_first(std::size_t part, Tag tag, bool offered) {
  const std::uint32_t start = slot_position(part);
  flag(start + 1).store(offered ? word_for(start + 1, offer_mark) : 0, std::memory_order_relaxed);
  publish_slot(part, tag);
}

// True when the message stays where it is.
bool MessageSender::try_offer(const std::byte* data, std::size_t bytes, std::byte* room, std::size_t part,
                              Tag tag) {
  const MemoryOffer offer = direct_.offer(data, bytes);
  if (direct_.reach(offer) != Reach::mapped) return false;
  std::memcpy(room, &offer, sizeof offer);
  publish_first(part, tag, true);
  offered_end_ = position();
  offered_ = true;
  return true;
}

bool MessageSender::try_send_long(const std::byte* data, std::size_t bytes, Tag tag, bool stable) {
  if (bytes < long_message) return ShmSender::try_send_long(data, bytes, tag, stable);
  const std::size_t longest = part_of(bytes, memory()), before = sent_;
  while (sent_ < bytes && sent_ - before < bytes_in_one_go) {
    const std::size_t part = std::min(longest, bytes - sent_);
    std::byte* const room = slot(part);
    if (room == nullptr) break;
    if (sent_ == 0 && stable && try_offer(data, bytes, room, part, tag)) {
      count_sent(bytes);
      return true;
    }
    copy_in(room, data + sent_, part);
    if (sent_ == 0)
      publish_first(part, tag, false);
    else
      publish_slot(part, tag);
    sent_ += part;
  }
  moved_ = sent_ != before && sent_ != bytes;
  if (sent_ != bytes) return false;
  sent_ = 0;
  count_sent(bytes);
  return true;
}

bool MessageSender::flushed() {
  ShmSender::flushed();
  offered_ = offered_ && !taken(offered_end_);
  return !offered_;
}

MessageReceiver::MessageReceiver(Wakes& wakes, const FifoMemory& memory, Rank writer, Rank me,
                                 Traffic& traffic, DirectMemory& direct)
    : ShmReceiver(wakes, memory, writer, me, traffic), direct_(direct) {}

const std::byte* MessageReceiver::try_acquire(std::size_t bytes, Tag tag) {
  assert(bytes < long_message);
  return ShmReceiver::try_acquire(bytes, tag);
}

// Of the message that is being received: bytes that are due in a slot.
std::size_t MessageReceiver::part_at(std::size_t bytes) const {
  if (bytes < long_message) return bytes;
  return std::min(part_of(bytes, memory()), offered_ ? bytes : bytes - received_);
}

bool MessageReceiver::missing(std::size_t bytes) const { return ShmReceiver::missing(part_at(bytes)); }

void MessageReceiver::suspect(std::size_t bytes, Tag tag) { ShmReceiver::suspect(part_at(bytes), tag); }

bool MessageReceiver::try_receive_long(std::byte* into, std::size_t bytes, Tag tag) {
  if (bytes < long_message) return ShmReceiver::try_receive_long(into, bytes, tag);
  const std::size_t before = received_;
  while (received_ < bytes && received_ - before < bytes_in_one_go && take_part(into, bytes, tag)) {
  }
  moved_ = received_ != before && received_ != bytes;
  if (received_ != bytes) return false;
  finish(bytes);
  return true;
}

bool MessageReceiver::take_part(std::byte* into, std::size_t bytes, Tag tag) {
  const std::size_t part = part_at(bytes);
  const std::byte* const data = slot(part, tag);
  if (data == nullptr) return false;
  if (received_ == 0) begin_message(bytes, data);
  if (!offered_) {
    copy_out(into + received_, data, part);
    received_ += part;
    return true;
  }
  const std::size_t copied = copy_offered(into + received_, bytes - received_);
  received_ += copied;
  return copied != 0;
}

// Its first part is held.
void MessageReceiver::begin_message(std::size_t bytes, const std::byte* first) {
  const std::uint32_t start = held_start(part_at(bytes));
  if (flag(start + 1).load(std::memory_order_relaxed) != word_for(start + 1, offer_mark)) return;
  std::memcpy(&place_, first, sizeof place_);
  offered_ = true;
}

// How many bytes; 0 when some rank has failed, of which this one will hear.
std::size_t MessageReceiver::copy_offered(std::byte* into, std::size_t bytes) {
  if (!direct_.enter()) return 0;
  struct Leave {
    DirectMemory& memory;
    ~Leave() { memory.leave(); }
  } const leave{direct_};
  bytes = std::min(bytes, bytes_in_one_go);  // meanwhile nobody can close them
  kernels::copy({&into, 1}, direct_.map(writer(), place_) + received_, bytes, 0);
  return bytes;
}

void MessageReceiver::finish(std::size_t bytes) {
  if (offered_) {
    count_direct(bytes);
    take_units_at_once();
  }
  count_received(bytes);
  received_ = 0;
  offered_ = false;
}

}  // namespace tutti::transport::shm
