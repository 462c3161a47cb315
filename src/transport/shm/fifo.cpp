#include "transport/shm/fifo.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/brief_copy.hpp"
#include "base/prefetch.hpp"
#include "kernels/fold.hpp"

namespace tutti::transport::shm {

namespace {

// Positions wrap: compare by signed distance.
constexpr bool before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

// From one time that all flags are written anew to the next: half of all positions, so that none comes twice
// in between.
constexpr std::uint32_t units_of_a_renewal = std::uint32_t{1} << 31U;

template <std::atomic<std::uint32_t> Acknowledged::*counter>
std::uint32_t lowest(const FifoMemory& memory, const std::vector<Rank>& readers) {
  std::uint32_t low = (memory.acknowledged[readers[0]].*counter).load(std::memory_order_acquire);
  for (std::size_t i = 1; i < readers.size(); ++i) {
    const auto taken = (memory.acknowledged[readers[i]].*counter).load(std::memory_order_acquire);
    if (before(taken, low)) low = taken;
  }
  return low;
}

// `found` is the word where one of `position` is due. True when it is there; a message of another call
// throws.
inline bool arrived(std::uint64_t found, std::uint32_t position, Tag tag) {
  if (found == word_for(position, tag)) [[likely]]
    return true;
  if (static_cast<std::uint32_t>(found) == position + 1) throw Mismatch{tag, static_cast<Tag>(found >> 32)};
  return false;
}

// Slots pay soonest between two ranks, and where one rank sends message after message and the ring holds more
// of them than lines do. docs/experiments.md.
std::size_t longest_in_lines(int ranks, int channel, std::uint32_t room) {
  if (channel == lone_channel || channel == stream_channel)
    return std::clamp(line_payload * line_count / room, line_message_max / 4, line_message_max);
  if (ranks > 2) return line_message_max;
  if (kernels::block_copies_win()) return line_message_max / 2;
  return channel == message_channel ? line_message_max : line_message_max / 4;
}

void copy(std::byte* to, const std::byte* from, std::size_t bytes, bool past_caches) {
  std::byte* const sinks[] = {to};
  kernels::copy(sinks, from, bytes, {.streaming_sinks = past_caches ? 1U : 0U});
}

}  // namespace

FifoMemory::FifoMemory(const Arena& arena, Rank writer, Rank reader, int channel) {
  const Layout& layout = arena.layout();
  const FifoLayout& parts = layout.layout_of(channel);
  std::byte* base = arena.at(layout.offset_of(writer, reader, channel));
  lines = reinterpret_cast<Line*>(base);
  flags = reinterpret_cast<std::atomic<std::uint64_t>*>(base + FifoLayout::flags_offset);
  acknowledged = reinterpret_cast<Acknowledged*>(base + parts.acknowledged_offset);
  slots = base + parts.slots_offset;
  units = parts.units;
  room = writer == reader ? units : layout.pair_units();
  line_message = longest_in_lines(layout.ranks, channel, room);
  longest = layout.max_message();
  long_from = channel == message_channel ? long_message : longest + 1;
  rewinds = layout.crowded() && channel != lone_channel;
}

ShmSender::ShmSender(Wakes& wakes, const FifoMemory& memory, std::vector<Rank> readers, Traffic& traffic)
    : wakes_(wakes), memory_(memory), readers_(std::move(readers)), traffic_(traffic) {
  assert(!readers_.empty());
}

bool ShmSender::lines_free(std::uint32_t needed) {
  if (line_ + needed - lines_taken_ <= line_count) [[likely]]
    return true;
  lines_taken_ = lowest<&Acknowledged::lines>(memory_, readers_);
  return line_ + needed - lines_taken_ <= line_count;
}

bool ShmSender::units_free(std::uint32_t end) {
  if (end - units_taken_ <= memory_.units) [[likely]]
    return true;
  take_back_units();
  return end - units_taken_ <= memory_.units;
}

bool ShmSender::taken(std::uint32_t end) {
  if (before(units_taken_, end)) take_back_units();
  return !before(units_taken_, end);
}

// What was skipped by rewinding nobody acknowledges.
void ShmSender::take_back_units() {
  const std::uint32_t low = lowest<&Acknowledged::units>(memory_, readers_);
  if (before(units_taken_, low)) take_back_to(low);
}

// Where no message begins any more a flag stays what it was; or 0, as of a message at position 2^32 - 1. When
// its position came again it would pass for a message. So, once in a while, all that are taken back are made
// flags of the lap before, which nobody awaits; nothing has been written there since.
void ShmSender::take_back_to(std::uint32_t end) {
  // No more than a lap is taken back at once: what this leaves out has nothing of a renewal's first lap.
  if (end % units_of_a_renewal < 2 * memory_.units)
    for (std::uint32_t unit = units_taken_; unit != end; ++unit)
      flag(unit).store(word_for(unit - memory_.units, Tag{}), std::memory_order_relaxed);
  units_taken_ = end;
}

// Short transfers would otherwise walk through all of the ring, which no cache keeps where ranks are many.
// To look costs the return of a line from each reader: in vain, it is done more and more rarely until the
// front comes by itself.
void ShmSender::rewind() {
  if (!memory_.rewinds) return;
  if (unit_ % memory_.units < memory_.units / 4) {
    patience_ = 1;
    return;
  }
  if (unit_ - looked_ < patience_) return;
  take_back_units();
  if (units_taken_ == unit_) {
    unit_ = front_after(unit_, memory_.units);
    take_back_to(unit_);
  }
  looked_ = unit_;
  patience_ = std::min(2 * patience_, memory_.units / 8);
}

inline void ShmSender::write_line(std::uint32_t position, const std::byte* data, std::size_t bytes, Tag tag) {
  Line& line = memory_.lines[position % line_count];
  if (bytes == line_payload)
    std::memcpy(line.payload, data, line_payload);
  else
    copy_brief(line.payload, data, bytes);
  line.word.store(word_for(position, tag), std::memory_order_release);
}

// Its readers read a line last: the next message of this length finds the lines that it will write taken
// back.
void ShmSender::write_lines(const std::byte* data, std::size_t bytes, Tag tag) {
  const std::uint32_t first = line_;
  std::uint32_t position = first;
  for (; bytes > line_payload; data += line_payload, bytes -= line_payload)
    write_line(position++, data, line_payload, tag);
  write_line(position++, data, bytes, tag);
  line_ = position;
  for (std::uint32_t ahead = position; ahead != position + (position - first); ++ahead)
    prefetch_for_write(memory_.lines[ahead % line_count].payload);
}

void ShmSender::count_sent(std::size_t bytes) {
  ++traffic_.messages_sent;
  traffic_.bytes_sent += bytes;
}

void ShmSender::sent(std::size_t bytes) {
  count_sent(bytes);
  wakes_.owe(readers_);
}

std::uint32_t ShmSender::slot_position(std::size_t bytes) const {
  return slot_start(unit_, units_for(bytes), memory_.units, memory_.room);
}

std::byte* ShmSender::slot(std::size_t bytes) {
  const std::uint32_t needed = units_for(bytes);
  assert(needed <= memory_.units / channel_credits);
  rewind();
  const std::uint32_t start = slot_position(bytes);
  return units_free(start + needed) ? memory_.slots + (start % memory_.units) * unit_bytes : nullptr;
}

void ShmSender::publish_slot(std::size_t bytes, Tag tag) {
  const std::uint32_t start = slot_position(bytes);
  flag(start).store(word_for(start, tag), std::memory_order_release);
  unit_ = start + units_for(bytes);
  wakes_.owe(readers_);
}

// As of lines; longer messages ask for theirs while they are written.
void ShmSender::prefetch_next_slot(std::size_t bytes) {
  constexpr std::size_t most = 2048;
  const std::uint32_t start = slot_position(bytes);
  if (bytes > most || start + units_for(bytes) - units_taken_ > memory_.units) return;
  const std::byte* const next = memory_.slots + (start % memory_.units) * unit_bytes;
  for (std::size_t at = 0; at < bytes; at += 64) prefetch_for_write(next + at);
  prefetch_for_write(reinterpret_cast<const std::byte*>(&flag(start)));
}

void ShmSender::copy_in(std::byte* room, const std::byte* data, std::size_t bytes) {
  copies_.begin(bytes);
  copy(room, data, bytes, copies_.past_caches());
  copies_.end(bytes);
  traffic_.bytes_copied += bytes;
}

std::byte* ShmSender::try_reserve(std::size_t bytes) {
  if (bytes <= memory_.line_message) return lines_free(lines_for(bytes)) ? staging_ : nullptr;
  std::byte* room = slot(bytes);
  if (room != nullptr) fills_.begin(bytes);
  return room;
}

void ShmSender::publish(std::size_t bytes, Tag tag) {
  if (bytes <= memory_.line_message) {
    write_lines(staging_, bytes, tag);
    sent(bytes);
    return;
  }
  fills_.end(bytes);
  publish_slot(bytes, tag);
  if (!fills_.past_caches()) prefetch_next_slot(bytes);
  count_sent(bytes);
}

bool ShmSender::try_send(const std::byte* data, std::size_t bytes, Tag tag, bool stable) {
  if (bytes > line_payload || line_ - lines_taken_ == line_count)
    return try_send_long(data, bytes, tag, stable);
  write_line(line_++, data, bytes, tag);
  prefetch_for_write(memory_.lines[line_ % line_count].payload);
  sent(bytes);
  traffic_.bytes_copied += bytes;
  return true;
}

bool ShmSender::try_send_long(const std::byte* data, std::size_t bytes, Tag tag, bool /*stable*/) {
  if (bytes <= memory_.line_message) {
    if (!lines_free(lines_for(bytes))) return false;
    write_lines(data, bytes, tag);
    sent(bytes);
    traffic_.bytes_copied += bytes;
    return true;
  }
  std::byte* const room = slot(bytes);
  if (room == nullptr) return false;
  copy_in(room, data, bytes);
  publish_slot(bytes, tag);
  if (!copies_.past_caches()) prefetch_next_slot(bytes);
  count_sent(bytes);
  return true;
}

bool ShmSender::flushed() {
  wakes_.settle();
  return true;
}

// A FIFO has several readers only where all ranks are of this host, under the same numbers.
void ShmSender::name_slow_readers(std::size_t bytes, std::vector<Rank>& ranks) const {
  const bool in_lines = bytes <= memory_.line_message;
  const std::uint32_t end = in_lines ? line_ + lines_for(bytes) : slot_position(bytes) + units_for(bytes);
  const std::uint32_t oldest = end - (in_lines ? line_count : memory_.units);
  for (const Rank reader : readers_) {
    const Acknowledged& by = memory_.acknowledged[reader];
    if (before((in_lines ? by.lines : by.units).load(std::memory_order_acquire), oldest))
      ranks.push_back(reader);
  }
}

ShmReceiver::ShmReceiver(Wakes& wakes, const FifoMemory& memory, Rank writer, Rank me, Traffic& traffic)
    : wakes_(wakes), memory_(memory), writer_(writer), mine_(memory.acknowledged[me]), traffic_(traffic) {}

bool ShmReceiver::read_lines(std::byte* into, std::size_t bytes, Tag tag) {
  const std::uint32_t count = lines_for(bytes);
  const Line* const lines = memory_.lines;
  const std::uint32_t end = line_ + count;
  std::uint32_t position = line_ + lines_read_;
  std::byte* to = into + lines_read_ * line_payload;
  while (position != end) {
    const Line& line = lines[position % line_count];
    if (!arrived(line.word.load(std::memory_order_acquire), position, tag)) {
      lines_read_ = position - line_;
      return false;
    }
    if (++position == end) {
      copy_brief(to, line.payload, bytes - (count - 1) * line_payload);
    } else {
      std::memcpy(to, line.payload, line_payload);
      to += line_payload;
    }
  }
  lines_read_ = count;
  return true;
}

bool ShmReceiver::filled(std::uint32_t place) const {
  const std::uint64_t word = memory_.flags[place % memory_.units].load(std::memory_order_acquire);
  return static_cast<std::uint32_t>(word) == place + 1;
}

std::uint32_t ShmReceiver::place(std::uint32_t needed) const {
  const std::uint32_t due = slot_start(unit_, needed, memory_.units, memory_.room);
  const std::uint32_t front = memory_.rewinds ? front_after(unit_, memory_.units) : due;
  if (due == front || filled(due) || !filled(front)) return due;
  // Was the ring rewound, or has the message arrived just now, and others after it?
  return filled(due) ? due : front;
}

const std::byte* ShmReceiver::slot(std::size_t bytes, Tag tag) {
  const std::uint32_t needed = units_for(bytes);
  const std::uint32_t start = place(needed);
  if (!arrived(memory_.flags[start % memory_.units].load(std::memory_order_acquire), start, tag))
    return nullptr;
  held_end_ = start + needed;
  return memory_.slots + (start % memory_.units) * unit_bytes;
}

const std::byte* ShmReceiver::try_acquire(std::size_t bytes, Tag tag) {
  held_bytes_ = bytes;
  if (bytes > memory_.line_message) {
    held_lines_ = 0;
    return slot(bytes, tag);
  }
  const std::uint32_t count = lines_for(bytes);
  if (count == 1) {
    const Line& line = memory_.lines[line_ % line_count];
    if (!arrived(line.word.load(std::memory_order_acquire), line_, tag)) return nullptr;
    held_lines_ = 1;
    return line.payload;
  }
  if (lines_read_ < count && !read_lines(staging_, bytes, tag)) return nullptr;
  held_lines_ = count;
  return staging_;
}

bool ShmReceiver::missing(std::size_t bytes) const {
  if (bytes > memory_.line_message) return slot_missing(bytes);
  const std::uint64_t word = memory_.lines[line_ % line_count].word.load(std::memory_order_relaxed);
  return static_cast<std::uint32_t>(word) != line_ + 1;
}

void ShmReceiver::take_lines(std::uint32_t count) {
  line_ += count;
  lines_read_ = 0;
  if (line_ - lines_told_ < line_ack_interval) return;
  lines_told_ = line_;
  mine_.lines.store(line_, std::memory_order_release);
  wakes_.owe(std::span(&writer_, 1));
}

void ShmReceiver::take_units(std::uint32_t end) {
  unit_ = end;
  const bool much = unit_ - units_told_ >= memory_.units / 8;
  if (much || memory_.rewinds) mine_.units.store(unit_, std::memory_order_release);
  if (!much) return;
  units_told_ = unit_;
  wakes_.owe(std::span(&writer_, 1));
}

void ShmReceiver::take_units_at_once() {
  unit_ = units_told_ = held_end_;
  mine_.units.store(unit_, std::memory_order_release);
  wakes_.owe(std::span(&writer_, 1));
}

void ShmReceiver::release() {
  count_received(held_bytes_);
  if (held_lines_ != 0)
    take_lines(held_lines_);
  else
    take_units(held_end_);
}

bool ShmReceiver::try_receive(std::byte* into, std::size_t bytes, Tag tag) {
  if (bytes > line_payload) return try_receive_long(into, bytes, tag);
  const Line& line = memory_.lines[line_ % line_count];
  if (!arrived(line.word.load(std::memory_order_acquire), line_, tag)) return false;
  copy_brief(into, line.payload, bytes);
  count_received(bytes);
  traffic_.bytes_copied += bytes;
  take_lines(1);
  return true;
}

bool ShmReceiver::try_receive_long(std::byte* into, std::size_t bytes, Tag tag) {
  if (bytes <= memory_.line_message) {
    if (!read_lines(into, bytes, tag)) return false;
    take_lines(lines_for(bytes));
    traffic_.bytes_copied += bytes;
  } else {
    const std::byte* const data = slot(bytes, tag);
    if (data == nullptr) return false;
    copy_out(into, data, bytes);
  }
  count_received(bytes);
  return true;
}

void ShmReceiver::copy_out(std::byte* into, const std::byte* data, std::size_t bytes) {
  copy(into, data, bytes, false);
  take_units(held_end_);
  traffic_.bytes_copied += bytes;
}

void ShmReceiver::count_received(std::size_t bytes) {
  ++traffic_.messages_received;
  traffic_.bytes_received += bytes;
}

// Messages of both forms are in one order. So while the awaited one is missing, all other places where the
// next one may be must be empty too. The awaited one's is read last: whatever was sent before what is found
// elsewhere is visible by then.
void ShmReceiver::suspect(std::size_t bytes, Tag tag) {
  const auto look = [&](const std::atomic<std::uint64_t>& word, std::uint32_t position) {
    const std::uint64_t found = word.load(std::memory_order_acquire);
    if (static_cast<std::uint32_t>(found) == position + 1 && ShmReceiver::missing(bytes))
      throw Mismatch{tag, static_cast<Tag>(found >> 32)};
  };
  look(memory_.lines[line_ % line_count].word, line_);
  look(flag(unit_), unit_);
  const std::uint32_t front = front_after(unit_, memory_.units);
  look(flag(front), front);
}

}  // namespace tutti::transport::shm
