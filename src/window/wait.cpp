// Waiting for transfers and notifications: spin, yield, then sleep, and look around now and then.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <span>
#include <thread>
#include <vector>

#include "base/coarse_clock.hpp"
#include "base/yield.hpp"
#include "bootstrap/frame.hpp"
#include "window/state.hpp"

namespace tutti::detail {

namespace {

using namespace std::chrono_literals;

constexpr auto look_interval = 1ms;
constexpr auto gone_grace = 100ms;  ///< what a rank did before it went may take so long to be seen
constexpr auto linger = 1s;         ///< for own transfers, when a window is destroyed
/// Longer than there and back where both sides sleep on the way, hundreds of microseconds in a virtual
/// machine: else each would sleep because the other one does.
constexpr auto yields_for = 1ms;

/// How a wait goes on: polls at once, then yields, then sleeps longer and longer.
class Patience {
 public:
  /// True while there is no need to sleep or to look around.
  bool awake() {
    if (++polls_ < 100) return true;
    const auto now = Clock::now();
    if (polls_ == 100) since_ = now;
    if (now - since_ > yields_for) return false;
    const auto away = yield_processor(now);
    if (away && *away >= dear_yield) avoid_yields(now + *away);
    return away.has_value();
  }
  /// Now and then: for what may wait a little.
  [[nodiscard]] bool due() const { return polls_ % 8 == 0 || polls_ > 100; }
  std::chrono::microseconds nap() {
    nap_ = std::min<std::chrono::microseconds>(nap_ * 2, 500us);
    return nap_;
  }

 private:
  unsigned polls_ = 0;
  Clock::time_point since_;
  std::chrono::microseconds nap_ = 10us;
};

}  // namespace

WindowState::~WindowState() {
  if (fork_generation() != generation_) return;
  for (const Deadline deadline(linger); !busy_.empty() && !deadline.passed();) {
    progress();
    if (!busy_.empty()) sleep(100us);
  }
}

void WindowState::mark_busy(Rank target) {
  WindowPeer& to = peer(target);
  if (to.busy) return;
  busy_.push_back(target);
  to.busy = true;
}

void WindowState::progress() {
  std::erase_if(busy_, [this](Rank target) {
    WindowPeer& to = peer(target);
    try {
      to.busy =
          use({"transfer", target}, *to.memory, [&] { return to.memory->done() < to.memory->started(); });
    } catch (const std::exception&) {
      to.busy = false;  // kept; whoever waits for that target learns of it
    }
    return !to.busy;
  });
}

void WindowState::sleep(std::chrono::microseconds longest) {
  if (!busy_.empty())
    peer(busy_.front()).memory->wait(longest);
  else if (peers_->access)
    peers_->access->wait(longest);
  else
    std::this_thread::sleep_for(longest);
}

void WindowState::require_usable() const {
  if (fork_generation() != generation_)
    throw Error(ErrorCode::forked,
                title() + ": it belongs to the parent process; make a new one in the child");
  if (setting_.over())
    throw Error(ErrorCode::aborted, title() + ": the communicator of this window was destroyed before it");
}

void WindowState::look_around() {
  require_usable();
  const auto now = coarse_now();
  if (now - looked_ < look_interval) return;
  looked_ = now;
  try {
    setting_.check();
  } catch (const Error& error) {
    looked_ = {};  // what is over stays so: the next call says it, too, however soon it comes
    throw bootstrap::with_context(error, title() + ": ", {});
  }
}

void WindowState::check_target(const Subject& subject, Clock::duration grace) {
  look_around();
  const auto gone = setting_.gone(subject.target);
  if (!gone || Clock::now() - gone->since < grace) return;
  looked_ = {};
  look_around();  // an abort is the better explanation
  use(subject, *peer(subject.target).memory, [&] {
    throw Error(ErrorCode::peer_lost, fmt::format("that rank {}; transfers with others go on", gone->did));
  });
}

bool WindowState::check_deadlines(WindowPeer& to, std::uint64_t number, bool all) const {
  bool any = false;
  to.forget_timed();
  for (const Timed& one : to.timed) {
    if (!all && one.number != number) continue;
    if (one.deadline.passed())
      throw Error(ErrorCode::timeout, one.what + ": its deadline has passed; it is still under way",
                  {static_cast<Rank>(&to - peers_->all.data())});
    any = true;
  }
  return any;
}

// What is known to be done is, whatever happened to its target since. Of a target that is busy after
// `progress` nothing is new, and to look costs a system call or a device's register.
bool WindowState::is_done(const Awaited& one, bool all_moved) {
  if (one.way->known_done() >= one.number) return true;
  const WindowPeer& to = peer(one.subject.target);
  if (all_moved && to.busy && one.way == to.memory.get()) return false;
  return use(one.subject, *one.way, [&] { return one.way->done(); }) >= one.number;
}

void WindowState::check(const Awaited& one, Limit& limit) {
  if (one.way->known_done() >= one.number) return;  // since it was looked at
  const bool is_atomic = one.kind == Awaited::Kind::atomic;
  const bool has_deadline = !is_atomic && check_deadlines(peer(one.subject.target), one.number,
                                                          one.kind == Awaited::Kind::all_transfers);
  check_target(one.subject, gone_grace);
  if (!limit.passed(has_deadline)) return;
  throw Error(
      ErrorCode::timeout,
      fmt::format("{}: not done in time; it {} (Options::timeout or TUTTI_TIMEOUT sets the limit of "
                  "waits without one)",
                  describe(one.subject),
                  is_atomic ? "may still take effect" : "is still under way and can be waited for again"),
      {one.subject.target});
}

void WindowState::wait_until(std::span<Awaited> left, Limit limit) {
  require_usable();
  std::exception_ptr first;
  // One that fails, or takes too long, leaves the others to be done.
  const auto drop = [&](auto is_over) {
    const auto end = std::remove_if(left.begin(), left.end(), [&](const Awaited& one) {
      try {
        return is_over(one);
      } catch (const Error&) {
        if (!first) first = std::current_exception();
        return true;
      }
    });
    left = left.first(static_cast<std::size_t>(end - left.begin()));
  };
  const auto drop_done = [&](bool all) {
    if (all) progress();
    drop([&](const Awaited& one) { return is_done(one, all); });
  };
  bool all = false;  // those that are not waited for can wait a little
  for (Patience patience; drop_done(all), !left.empty(); all = patience.due()) {
    const bool others_moved = setting_.move_queued();
    if (others_moved)
      patience = {};
    else if (patience.awake())
      continue;
    look_around();
    drop([&](const Awaited& one) { return check(one, limit), false; });
    if (!others_moved && !left.empty()) left.front().way->wait(patience.nap());
  }
  if (first) std::rethrow_exception(first);
}

void WindowState::wait(const Transfer& transfer, std::optional<std::chrono::milliseconds> timeout) {
  std::array one{Awaited{subject_of(transfer), peer(transfer.target_).memory.get(), transfer.number_}};
  wait_until(one, Limit(timeout, setting_.group.timeout));
}

bool WindowState::test(const Transfer& transfer) {
  require_usable();
  WindowPeer& to = peer(transfer.target_);
  const Awaited one{subject_of(transfer), to.memory.get(), transfer.number_};
  if (one.way->known_done() >= one.number) return true;
  progress();
  if (is_done(one, true)) return true;
  setting_.move_queued();
  check_deadlines(to, transfer.number_, false);
  check_target(one.subject, gone_grace);
  return false;
}

WindowState::Awaited WindowState::all_transfers(Rank target) const {
  const WindowPeer& to = peer(target);
  return {{"flush", target}, to.memory.get(), to.memory->started(), Awaited::Kind::all_transfers};
}

void WindowState::flush(Rank target) {
  std::array one{all_transfers(target)};
  wait_until(one, Limit(std::nullopt, setting_.group.timeout));
}

void WindowState::flush() {
  std::vector<Awaited> all;
  all.reserve(static_cast<std::size_t>(setting_.group.size));
  for (Rank r = 0; r < setting_.group.size; ++r) all.push_back(all_transfers(r));
  wait_until(all, Limit(std::nullopt, setting_.group.timeout));
}

// Who is awaited and cannot send any more.
void WindowState::check_sources(std::uint32_t id, Rank from) {
  const auto now = Clock::now();
  int left = 0;
  for (Rank r = from < 0 ? 0 : from; r < (from < 0 ? setting_.group.size : from + 1); ++r) {
    try {
      if (peer(r).by_access) peers_->access->check(r);
    } catch (const Error& error) {
      throw bootstrap::with_context(error, fmt::format("{}: waiting for notification {}: ", title(), id), {});
    }
    const auto gone = setting_.gone(r);
    if (!gone || now - gone->since < gone_grace) continue;
    if (gone->orderly && from < 0 && ++left < setting_.group.size - 1) continue;
    throw Error(ErrorCode::peer_lost,
                fmt::format("{}: waiting for notification {}: rank {} {}", title(), id, r, gone->did), {r});
  }
}

void WindowState::wait_notification(std::uint32_t id, std::uint64_t count, Rank from,
                                    std::optional<std::chrono::milliseconds> timeout) {
  Limit limit(timeout, setting_.group.timeout);
  check_notification(id, from);
  for (Patience patience; !take_notification(id, count, from);) {
    if (patience.due()) progress();
    const bool others_moved = setting_.move_queued();
    if (others_moved)
      patience = {};
    else if (patience.awake())
      continue;
    look_around();
    check_sources(id, from);
    if (limit.passed())
      throw Error(ErrorCode::timeout,
                  fmt::format("{}: waited {} ms for {} of notification {}{}; {} came", title(),
                              limit.length().count(), count, id,
                              from < 0 ? "" : fmt::format(" of rank {}", from), counters_.arrived(id, from)),
                  from < 0 ? std::vector<Rank>{} : std::vector<Rank>{from});
    if (!others_moved) sleep(patience.nap());
  }
}

bool WindowState::test_notification(std::uint32_t id, std::uint64_t count, Rank from) {
  check_notification(id, from);
  if (take_notification(id, count, from)) return true;
  progress();
  setting_.move_queued();
  look_around();
  return false;
}

void WindowState::check_notification(std::uint32_t id, Rank from) const {
  require_usable();
  check_number(id);
  if (from != any_rank) static_cast<void>(peer(from));
}

bool WindowState::take_notification(std::uint32_t id, std::uint64_t count, Rank from) {
  if (peers_->access) peers_->access->progress();
  return counters_.take(id, count, from);
}

}  // namespace tutti::detail
