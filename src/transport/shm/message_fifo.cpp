#include "transport/shm/message_fifo.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "kernels/fold.hpp"

namespace tutti::transport::shm {

namespace {

// Of the second unit's word: how the message travels, and whether its sender wants to know how long it took.
constexpr Tag by_slots = 0x736C6F74, by_slots_timed = by_slots + 1, in_place = 0x6F666672,
              in_place_timed = in_place + 1;
// While the receiver copies a part, the sender copies the next one. The same at both ends.
std::size_t part_of(std::size_t bytes, const FifoMemory& memory) {
  return std::clamp(round_up(bytes / 4), long_message, std::max(memory.longest, long_message));
}

// Milliseconds.
constexpr bool takes_long(std::size_t bytes) { return bytes >= std::size_t{2} << 20U; }

template <class Work>
void timed(bool wanted, std::chrono::nanoseconds& sum, Work work) {
  const auto since = wanted ? Clock::now() : Clock::time_point();
  work();
  if (wanted) sum += Clock::now() - since;
}

}  // namespace

MessageSender::MessageSender(Wakes& wakes, const FifoMemory& memory, Rank reader, Traffic& traffic,
                             const DirectMemory& direct, MessageTimes* shared_times)
    : ShmSender(wakes, memory, {reader}, traffic), direct_(direct), shared_times_(shared_times) {}

std::byte* MessageSender::try_reserve(std::size_t bytes) {
  assert(bytes < memory().long_from);
  return ShmSender::try_reserve(bytes);
}

// Of those that take milliseconds more count where others tell theirs, who are through a message later. Of
// others, until either way finds in the caches what it leaves there, those by slots have to go round the
// ring.
PathTrial::Cadence MessageSender::cadence_of(std::size_t bytes) const {
  PathTrial::Cadence cadence = takes_long(bytes) ? PathTrial::of_long_calls : PathTrial::usual;
  if (takes_long(bytes) && shared_times_ != nullptr) {
    cadence.counted = PathTrial::usual.counted;
    cadence.trailing = PathTrial::usual.trailing;
    cadence.by_last_to_come = false;
  }
  if (takes_long(bytes)) return cadence;
  cadence.settling = 3 + static_cast<std::uint32_t>(memory().room * unit_bytes / bytes);
  cadence.first_gap = std::max(cadence.first_gap, cadence.settling + cadence.counted);
  return cadence;
}

MessageSender::Trial& MessageSender::trial_of(std::size_t bytes) {
  const auto doublings = static_cast<std::size_t>(std::bit_width(bytes / long_message));
  const std::size_t range = std::clamp(doublings, std::size_t{1}, send_ranges) - 1;
  auto& trial = trials_[range];
  if (trial == nullptr)
    trial =
        std::make_unique<Trial>(Trial{range, PathTrial({Path::slots, Path::direct}, cadence_of(bytes)), {}});
  return *trial;
}

void MessageSender::decide(Trial& trial) const {
  std::vector<PathTrial::Times> times;
  if (shared_times_ != nullptr && trial.since != Clock::time_point())
    times = shared_times_->of_others(trial.range, trial.since);
  times.push_back(trial.paths.times());
  trial.paths.decide(times);
  trial.since = {};
}

// How it travels this end decides by itself: the other one is told.
MessageSender::Message MessageSender::begin_message(const std::byte* data, std::size_t bytes, bool stable) {
  Message message;
  message.place = direct_.offer(data, bytes);
  const Reach reach = stable ? direct_.reach(message.place) : Reach::none;
  message.stays = reach == Reach::mapped;
  if (reach != Reach::attach) return message;
  Trial& trial = trial_of(bytes);
  PathTrial::Turn turn = trial.paths.next(Path::slots);
  if (turn.decides) {
    decide(trial);
    turn.path = trial.paths.path(Path::slots);
  }
  message.stays = turn.path == Path::direct && direct_.may_still_attach();
  if (!turn.timed) return message;
  message.timed_for = &trial;
  message.since = Clock::now();
  if (trial.since == Clock::time_point()) trial.since = message.since;
  return message;
}

void MessageSender::publish_first(std::size_t part, Tag tag) {
  const std::uint32_t start = slot_position(part);
  const bool asks = message_.timed_for != nullptr;
  const Tag way = message_.stays ? (asks ? in_place_timed : in_place) : (asks ? by_slots_timed : by_slots);
  flag(start + 1).store(word_for(start + 1, way), std::memory_order_relaxed);
  publish_slot(part, tag);
}

bool MessageSender::try_send_long(const std::byte* data, std::size_t bytes, Tag tag, bool stable) {
  if (bytes < memory().long_from) return ShmSender::try_send_long(data, bytes, tag, stable);
  if (!std::exchange(begun_, true)) message_ = begin_message(data, bytes, stable);
  const std::size_t longest = part_of(bytes, memory()), before = sent_;
  while (sent_ < bytes && sent_ - before < bytes_in_one_go) {
    const std::size_t part = std::min(longest, bytes - sent_);
    std::byte* const room = slot(part);
    if (room == nullptr) break;
    if (message_.stays)
      std::memcpy(room, &message_.place, sizeof message_.place);
    else
      timed(message_.timed_for != nullptr, message_.copying, [&] { copy_in(room, data + sent_, part); });
    if (sent_ == 0)
      publish_first(part, tag);
    else
      publish_slot(part, tag);
    sent_ = message_.stays ? bytes : sent_ + part;
  }
  moved_ = sent_ != before && sent_ != bytes;
  if (sent_ != bytes) return false;
  end_message(bytes);
  return true;
}

void MessageSender::end_message(std::size_t bytes) {
  begun_ = false;
  sent_ = 0;
  count_sent(bytes);
  if (!message_.stays && message_.timed_for == nullptr) return;
  awaited_end_ = position();
  awaited_ = true;
}

// What it takes until its reader has it; but where ranks share processors, others run meanwhile, and what
// counts is how long either end is at work, and that others have to run. A quarter less for messages that
// stay, by which they fare better than their own time tells (docs/experiments-calls.md, Waiting). Of those
// that take milliseconds all others run in any case.
void MessageSender::record_time() {
  constexpr std::chrono::microseconds switches(3);
  const std::chrono::nanoseconds there(acknowledged().copying.load(std::memory_order_relaxed));
  const bool stays = message_.stays, by_work = shared_times_ != nullptr && !takes_long(message_.place.bytes);
  const auto work = stays ? (there + switches) * 3 / 4 : message_.copying + there;
  Trial& trial = *std::exchange(message_.timed_for, nullptr);
  trial.paths.record(stays ? Path::direct : Path::slots, by_work ? work : Clock::now() - message_.since);
  if (shared_times_ != nullptr) shared_times_->tell(trial.range, trial.paths.times());
}

bool MessageSender::flushed() {
  ShmSender::flushed();
  if (!awaited_) return true;
  const bool asks = message_.timed_for != nullptr && !begun_;
  if (asks && acknowledged().told.load(std::memory_order_acquire) != awaited_end_) return false;
  if (!taken(awaited_end_)) return false;  // positions come again: it may be told of a message long ago
  awaited_ = false;
  if (asks) record_time();
  return true;
}

// What takes milliseconds does not fare better so: others have their turns in any case.
bool MessageSender::flushes_late() const {
  constexpr std::size_t least = std::size_t{64} << 10U;  // 8 us by attach, where two switches take 3
  return awaited_ && message_.stays && message_.place.bytes >= least && !takes_long(message_.place.bytes);
}

MessageReceiver::MessageReceiver(Wakes& wakes, const FifoMemory& memory, Rank writer, Rank me,
                                 Traffic& traffic, DirectMemory& direct)
    : ShmReceiver(wakes, memory, writer, me, traffic), direct_(direct) {}

const std::byte* MessageReceiver::try_acquire(std::size_t bytes, Tag tag) {
  assert(bytes < memory().long_from);
  return ShmReceiver::try_acquire(bytes, tag);
}

// Of the long message that is being received: bytes that are due in a slot, however few.
std::size_t MessageReceiver::part_at(std::size_t bytes) const {
  return std::min(part_of(bytes, memory()), offered_ ? bytes : bytes - received_);
}

bool MessageReceiver::missing(std::size_t bytes) const {
  return bytes < memory().long_from ? ShmReceiver::missing(bytes) : slot_missing(part_at(bytes));
}

// Of a long message the first part has proved that its sender means it.
void MessageReceiver::suspect(std::size_t bytes, Tag tag) {
  if (received_ == 0) ShmReceiver::suspect(bytes < memory().long_from ? bytes : part_at(bytes), tag);
}

bool MessageReceiver::try_receive_long(std::byte* into, std::size_t bytes, Tag tag) {
  if (bytes < memory().long_from) return ShmReceiver::try_receive_long(into, bytes, tag);
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
    timed(timed_, copying_, [&] { copy_out(into + received_, data, part); });
    received_ += part;
    return true;
  }
  std::size_t copied = 0;
  timed(timed_, copying_, [&] { copied = copy_offered(into + received_, bytes - received_); });
  received_ += copied;
  if (copied != 0 && received_ != bytes) tell_part();
  return copied != 0;
}

// Its first part is held.
void MessageReceiver::begin_message(std::size_t bytes, const std::byte* first) {
  const std::size_t part = part_at(bytes);
  const std::uint32_t start = held_start(part);
  const std::uint64_t word = flag(start + 1).load(std::memory_order_relaxed);
  const auto is = [&](Tag way) { return word == word_for(start + 1, way); };
  offered_ = is(in_place) || is(in_place_timed);
  timed_ = is(by_slots_timed) || is(in_place_timed);
  if (offered_) std::memcpy(&place_, first, sizeof place_);
}

// How many bytes; 0 when some rank has failed, of which this one will hear.
std::size_t MessageReceiver::copy_offered(std::byte* into, std::size_t bytes) {
  if (!direct_.enter()) return 0;
  struct Leave {
    DirectMemory& memory;
    ~Leave() { memory.leave(); }
  } const leave{direct_};
  bytes = std::min(bytes, bytes_in_one_go);  // meanwhile nobody can close them
  if (direct_.reach(place_) == Reach::mapped)
    kernels::copy({&into, 1}, direct_.map(writer(), place_) + received_, bytes, {});
  else
    direct_.read(writer(), place_.address + received_, into, bytes);
  return bytes;
}

// The sender can do nothing but wait until all is copied.
void MessageReceiver::tell_part() {
  auto& parts = acknowledged().parts;
  parts.store(parts.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void MessageReceiver::tell_time() {
  acknowledged().copying.store(copying_.count(), std::memory_order_relaxed);
  acknowledged().told.store(held_end(), std::memory_order_release);
}

void MessageReceiver::finish(std::size_t bytes) {
  if (offered_) count_direct(bytes);
  if (offered_ || timed_) take_units_at_once();
  if (timed_) tell_time();
  count_received(bytes);
  received_ = 0;
  copying_ = {};
  offered_ = timed_ = false;
}

}  // namespace tutti::transport::shm
