#include "bootstrap/member.hpp"

#include <poll.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "base/fork_guard.hpp"
#include "bootstrap/hmac.hpp"
#include "bootstrap/socket.hpp"
#include "bootstrap/wire.hpp"

namespace tutti::bootstrap {
namespace {

constexpr std::chrono::milliseconds question_timeout{200};      ///< for the hub's answer to `who`
constexpr std::chrono::milliseconds announcement_timeout{500};  ///< so that abort stays within its second
constexpr std::chrono::milliseconds rejection_linger{200};      ///< for who is about to connect, and goodbyes
constexpr std::chrono::milliseconds end_of_hub{5000};  ///< takes no longer, whatever else rank 0 does

/// Hubs whose ranks have left while others go on: they serve those until they have gone, or the process ends.
/// In a child made by fork also its copies of hubs, which stay as they are.
struct KeptHubs {
  std::mutex mutex;
  std::vector<std::unique_ptr<Hub>> hubs;
  bool ended = false;
};
PerProcess<KeptHubs> kept_hubs;

/// When the process ends, so do they.
struct EndOfProcess {
  ~EndOfProcess() {
    auto& kept = kept_hubs.get();
    const std::lock_guard lock(kept.mutex);
    kept.ended = true;
    std::erase_if(kept.hubs, [](const std::unique_ptr<Hub>& one) { return !one->is_copy(); });
  }
};

void keep(std::unique_ptr<Hub> hub) {
  static const EndOfProcess end;
  auto& kept = kept_hubs.get();
  const std::lock_guard lock(kept.mutex);
  std::erase_if(kept.hubs, [](const std::unique_ptr<Hub>& one) { return !one->is_copy() && one->over(); });
  if (!kept.ended || hub->is_copy()) kept.hubs.push_back(std::move(hub));
}

}  // namespace

Member::Member(Identity identity, FileDescriptor socket, std::unique_ptr<Hub> hub)
    : identity_(std::move(identity)), generation_(fork_generation()), hub_(std::move(hub)) {
  connection_.emplace(std::move(socket), largest_gathered_payload(identity_.size),
                      largest_contribute_payload);
}

// The connection closes before the hub stops: see the order of the members.
Member::~Member() {
  if (!hub_ || !hub_->is_copy()) return;
  try {
    keep(std::move(hub_));
  } catch (const std::bad_alloc&) {
    // It was given up.
  }
}

std::optional<Fault> Member::await_welcome(std::chrono::milliseconds timeout) {
  const std::string what = joining(identity_.rank, identity_.size);
  try {
    if (!wait(Deadline(timeout), [this] { return welcome_ || rejected_ || ended_; })) ask_who_is_missing();
    const std::lock_guard lock(mutex_);
    if (welcome_) return std::nullopt;
    if (!ended_) {
      throw_if_impossible(what);
      throw_timeout(what, timeout);
    }
  } catch (const Error&) {
    give_up();
    throw;
  }
  give_up();
  const std::lock_guard lock(mutex_);
  return ended_;
}

void Member::give_up() noexcept {
  if (hub_) {
    hub_->end_with_last(rejection_linger);
    return;
  }
  bool until_its_end = false;
  {
    const std::lock_guard lock(mutex_);
    until_its_end = rejected_ || ended_;
  }
  leave(until_its_end ? end_of_hub : rejection_linger);  // or the hub would take it for dead
}

std::vector<Bytes> Member::all_gather(std::span<const std::byte> mine, std::chrono::milliseconds timeout) {
  if (is_forked_copy())
    throw Error(ErrorCode::forked, "all_gather in a child made by fork; a child must form its own group");
  if (mine.size() > largest_contribution)
    throw Error(ErrorCode::invalid_argument, "all_gather of " + std::to_string(mine.size()) +
                                                 " bytes; the bootstrap takes at most " +
                                                 std::to_string(largest_contribution) + " of a rank");
  std::string what;
  {
    const std::lock_guard lock(mutex_);
    what = "exchange " + std::to_string(gather_) + " while the group forms";
    throw_if_impossible(what);
    gathered_.reset();
    connection_->send(make_contribution(gather_++, mine));
  }
  if (!wait(Deadline(timeout), [this] { return gathered_ || rejected_ || !gone_.empty(); }))
    ask_who_is_missing();
  const std::lock_guard lock(mutex_);
  if (gathered_) return std::move(*std::exchange(gathered_, std::nullopt));
  throw_if_impossible(what);
  throw_timeout(what, timeout);
}

std::optional<Notice> Member::poll() {
  if (is_forked_copy()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!waiting_) pump();
  if (notices_.empty()) return std::nullopt;
  auto notice = std::move(notices_.front());
  notices_.pop_front();
  return notice;
}

bool Member::hub_has_ended() {
  if (is_forked_copy()) return false;
  const std::lock_guard lock(mutex_);
  return cut_off_;
}

void Member::announce_failure(std::uint64_t communicator, const Error& why) noexcept {
  announce(Notice::Kind::failed, communicator, why);
}

void Member::announce_abort(std::uint64_t communicator, const Error& why) noexcept {
  announce(Notice::Kind::aborted, communicator, why);
}

void Member::announce(Notice::Kind kind, std::uint64_t communicator, const Error& why) noexcept {
  try {
    auto [code, ranks, text] = to_fault(why);
    const Deadline deadline(announcement_timeout);
    push(make_frame(Notice{kind, identity_.rank, communicator, code, std::move(ranks), std::move(text)}),
         announcement_timeout);
    // The hub ends with this process, and whose call has failed often ends that at once.
    if (hub_) hub_->settle(deadline);
  } catch (const std::exception&) {
    // Out of memory: the others learn of this rank's end when its connection closes.
  }
}

void Member::announce_closed(std::uint64_t communicator, std::span<const Rank> members) noexcept {
  try {
    Notice notice{.kind = Notice::Kind::closed, .rank = identity_.rank, .ranks = {}, .text = {}};
    notice.communicator = communicator;
    while (!members.empty()) {
      const auto some = members.first(std::min(members.size(), most_named_ranks));
      notice.ranks.assign(some.begin(), some.end());
      push(make_frame(notice), std::chrono::milliseconds(0));
      members = members.subspan(some.size());
    }
  } catch (const std::exception&) {
    // Out of memory: who waits for this rank there waits until the deadline.
  }
}

void Member::report_stuck(std::uint64_t communicator, Rank me, std::span<const CallRecord> calls) noexcept {
  try {
    push(make_frame(StuckReport{communicator, me, {calls.begin(), calls.end()}}),
         std::chrono::milliseconds(0));
  } catch (const std::exception&) {
    // Out of memory: this rank goes on waiting until its deadline.
  }
}

void Member::leave(std::chrono::milliseconds linger) noexcept {
  if (is_forked_copy()) return;
  const Deadline deadline(linger);
  try {
    {
      const std::lock_guard lock(mutex_);
      if (!connection_) return;
      leaving_ = true;
      connection_->send(make_frame(FrameKind::goodbye));
    }
    wait(deadline, [] { return false; });  // the hub closes the connection: a goodbye is not lost to a reset
  } catch (const std::exception&) {
    // Out of memory: the others will see `lost`.
  }
  {
    const std::lock_guard lock(mutex_);
    connection_.reset();
  }
  if (!hub_ || hub_->end_with_last(std::chrono::milliseconds(deadline.poll_ms()))) return;
  try {
    keep(std::move(hub_));
  } catch (const std::bad_alloc&) {
    // It ends here, and with it what ranks hear of each other.
  }
}

void Member::pump() {
  if (!connection_ || cut_off_) return;
  static_cast<void>(connection_->flush());  // when broken, what the hub said last may still be read
  if (connection_->receive(
          [this](FrameKind kind, std::span<const std::byte> payload) { take(kind, payload); }))
    return;
  cut_off_ = true;
  const bool known = std::ranges::any_of(gone_, [](const Notice& n) { return n.rank == 0; });
  if (!welcome_ || leaving_ || known) return;
  gone_.push_back({.kind = Notice::Kind::lost, .rank = 0, .ranks = {}, .text = {}});
  notices_.push_back(gone_.back());
}

void Member::take(FrameKind kind, std::span<const std::byte> payload) {
  switch (kind) {
    case FrameKind::welcome:
      if (welcome_) throw Malformed{};
      secret_ = derive(identity_.secret, "tutti group", Reader(payload).get<std::uint64_t>());
      welcome_ = true;
      return;
    case FrameKind::ended:
      ended_ = read_fault(payload);
      return;
    case FrameKind::rejected:
      rejected_ = read_fault(payload);
      return;
    case FrameKind::missing:
      missing_ = read_fault(payload);
      return;
    case FrameKind::gathered:
      // One that this rank gave up waiting for may still come.
      if (Reader(payload).get<std::uint64_t>() + 1 == gather_)
        gathered_ = read_gathered(payload.subspan(sizeof(std::uint64_t)), identity_.size);
      return;
    case FrameKind::notice:
      notices_.push_back(read_notice(payload));
      if (const auto what = notices_.back().kind; what == Notice::Kind::lost || what == Notice::Kind::left)
        gone_.push_back(notices_.back());
      return;
    default:
      throw Malformed{};
  }
}

bool Member::wait(const Deadline& deadline, const std::function<bool()>& done) {
  for (;;) {
    pollfd one{};
    {
      const std::lock_guard lock(mutex_);
      waiting_ = false;
      pump();
      waiting_ = !done() && !cut_off_ && !deadline.passed();
      if (!waiting_) return done() || cut_off_;
      one = {connection_->fd(), connection_->events(), 0};
    }
    ::poll(&one, 1, deadline.poll_ms());
  }
}

void Member::push(const Frame& frame, std::chrono::milliseconds patience) {
  if (is_forked_copy()) return;
  const Deadline deadline(patience);
  int fd = -1;
  for (bool queued = false; !queued || wait_for(fd, POLLOUT, deadline);) {
    const std::lock_guard lock(mutex_);
    if (!connection_ || cut_off_) return;
    if (!std::exchange(queued, true)) connection_->send(frame);
    if (!connection_->flush() || connection_->flushed()) return;
    fd = connection_->fd();
  }
}

void Member::ask_who_is_missing() {
  {
    const std::lock_guard lock(mutex_);
    missing_.reset();
  }
  push(make_frame(FrameKind::who), std::chrono::milliseconds(0));
  wait(Deadline(question_timeout), [this] { return missing_ || rejected_ || ended_ || !gone_.empty(); });
}

void Member::throw_if_impossible(const std::string& what) const {
  if (rejected_) throw Error(rejected_->code, what + ": " + rejected_->text, rejected_->ranks);
  if (!connection_) throw Error(ErrorCode::aborted, what + ": this rank has left the group");
  std::vector<Rank> ranks;
  std::string text;
  for (const auto& notice : gone_) {
    ranks.push_back(notice.rank);
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(notice.rank) +
            (notice.kind == Notice::Kind::left ? " left" : " died");
  }
  if (!ranks.empty())
    throw Error(ErrorCode::peer_lost, what + ": " + text + "; form a new group without it to go on", ranks);
  if (cut_off_) throw Error(ErrorCode::peer_lost, what + ": rank 0 closed the connection", {0});
}

void Member::throw_timeout(const std::string& what, std::chrono::milliseconds timeout) const {
  const auto waited = " after " + std::to_string(timeout.count()) + " ms: ";
  if (missing_) throw Error(ErrorCode::timeout, what + waited + missing_->text, missing_->ranks);
  throw Error(ErrorCode::timeout, what + waited + "rank 0, which coordinates the group, does not answer",
              {0});
}

}  // namespace tutti::bootstrap
