#include "bootstrap/hub.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <limits>
#include <utility>

#include "base/quiet_thread.hpp"
#include "base/system_error.hpp"
#include "bootstrap/hmac.hpp"
#include "bootstrap/socket.hpp"
#include "bootstrap/wire.hpp"

namespace tutti::bootstrap {
namespace {

constexpr std::size_t most_strangers = 128;  ///< besides as many as there are ranks to come

PrivateDescriptor make_event() {
  FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) throw_errno("eventfd");
  return PrivateDescriptor(std::move(event));
}

}  // namespace

Hub::Hub(FileDescriptor listener, const Secret& secret, int size, std::chrono::milliseconds timeout,
         FileDescriptor own)
    : size_(size),
      formation_(timeout),
      wake_(make_event()),
      lobby_(std::move(listener), secret, most_strangers + static_cast<std::size_t>(size)),
      members_(static_cast<std::size_t>(size)),
      generation_(fork_generation()) {
  auto& self = members_[0];
  self.presence = Presence::present;
  self.came = true;
  self.origin = "the process of the hub";
  self.connection.emplace(std::move(own), largest_contribute_payload, largest_gathered_payload(size));
  thread_ = quiet_thread([this] { run(); });
  ::pthread_setname_np(thread_->native_handle(), "tutti-hub");
}

Hub::~Hub() {
  if (is_copy()) {  // out of memory to keep it; the handle of its thread cannot be destroyed
    static_cast<void>(thread_.release());
    return;
  }
  stop_ = true;
  wake();
  thread_->join();
}

bool Hub::end_with_last(std::chrono::milliseconds patience) noexcept {
  if (is_copy()) return true;
  ends_with_last_ = true;
  wake();
  return over_.wait_for(patience) == std::future_status::ready;
}

bool Hub::over() const { return over_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

void Hub::settle(const Deadline& by) noexcept {
  if (is_copy()) return;
  std::unique_lock lock(settling_);
  const std::uint64_t mine = ++asked_;
  wake();
  settled_now_.wait_until(lock, by.end(), [&] { return settled_ >= mine; });
}

std::uint64_t Hub::asked() {
  const std::lock_guard lock(settling_);
  return asked_;
}

void Hub::set_settled(std::uint64_t until) {
  {
    const std::lock_guard lock(settling_);
    settled_ = until;
  }
  settled_now_.notify_all();
}

void Hub::wake() noexcept {
  const std::lock_guard lock(wake_mutex_);
  if (!wake_) return;
  const std::uint64_t one = 1;
  // It can only be full, and then it wakes.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void Hub::run() noexcept {
  try {
    // One round more after the end was decided: what rank 0 said before that is relayed.
    for (bool last = false; !last;) {
      last = finished();
      const std::uint64_t wanted = asked();
      serve_once(last || wanted != settled_ ? 0 : poll_ms());
      if (wanted != settled_) set_settled(wanted);
    }
  } catch (const std::exception&) {
    // Out of memory or of descriptors: closing all connections tells every rank that rank 0 is lost.
  }
  lobby_.close();  // first: who was turned away may come to the next group once its connection closes
  turned_away_.clear();
  for (auto& member : members_) member.connection.reset();
  {
    const std::lock_guard lock(wake_mutex_);  // it may be kept for long, and then has no descriptor left
    wake_.reset();
  }
  set_settled(std::numeric_limits<std::uint64_t>::max());
  ended_.set_value();
}

bool Hub::finished() const {
  if (stop_ || !ends_with_last_) return stop_;
  const auto others = std::span(members_).subspan(1);
  return (rejection_ && std::ranges::all_of(others, &Member::heard)) ||
         std::ranges::none_of(members_, [](const Member& m) { return m.connection.has_value(); });
}

int Hub::poll_ms() const {
  const int wait = lobby_.poll_ms();
  if (formed_ || rejection_) return wait;
  return wait < 0 ? formation_.poll_ms() : std::min(wait, formation_.poll_ms());
}

void Hub::serve_once(int timeout_ms) {
  waiting_.assign(1, {wake_.get(), POLLIN, 0});
  polled_.clear();
  for (Rank rank = 0; rank < size_; ++rank) {
    const auto& connection = members_[static_cast<std::size_t>(rank)].connection;
    if (!connection) continue;
    waiting_.push_back({connection->fd(), connection->events(), 0});
    polled_.push_back(rank);
  }
  lobby_.add_to(waiting_);
  if (::poll(waiting_.data(), waiting_.size(), timeout_ms) < 0) {
    if (errno == EINTR) return;
    throw_errno("poll");  // out of memory, or more descriptors than the process may have by now
  }
  std::uint64_t wakes = 0;
  if (waiting_[0].revents != 0) static_cast<void>(!::read(wake_.get(), &wakes, sizeof wakes));
  for (std::size_t i = 0; i < polled_.size(); ++i)
    if (waiting_[1 + i].revents != 0) serve(polled_[i]);
  lobby_.advance(std::span(waiting_).subspan(1 + polled_.size()),
                 [this](FileDescriptor socket, const Hello& hello) { enter(std::move(socket), hello); });
  if (!formed_ && !rejection_ && formation_.passed()) reject(who_is_missing());
  flush_all();
}

void Hub::flush_all() {
  do {
    for (const Rank rank : std::exchange(doomed_, {})) depart(rank, Presence::lost);
    for (Rank rank = 0; rank < size_; ++rank) {
      auto& connection = members_[static_cast<std::size_t>(rank)].connection;
      if (connection && !connection->flush()) doomed_.insert(rank);
    }
  } while (!doomed_.empty());
}

void Hub::enter(FileDescriptor socket, const Hello& hello) {
  const std::string origin = to_string(remote_endpoint(socket.get()));
  const std::string who = "rank " + std::to_string(hello.rank) + " (from " + origin + ")";
  if (!rejection_) {
    const bool in_range = hello.rank > 0 && hello.rank < size_;
    if (hello.purpose != 0 || hello.size != static_cast<std::uint32_t>(size_) || !in_range) {
      reject({ErrorCode::invalid_argument,
              {hello.rank},
              who + " says that there are " + std::to_string(hello.size) + " ranks, but rank 0 says " +
                  std::to_string(size_) + "; start all with the same size, and one of them as rank 0"});
    } else if (members_[static_cast<std::size_t>(hello.rank)].connection) {
      reject({ErrorCode::invalid_argument,
              {hello.rank},
              who + " is taken by another process (from " +
                  members_[static_cast<std::size_t>(hello.rank)].origin +
                  "); give every process its own rank"});
    }
  }
  if (rejection_) {
    Frame last = rejection_;
    if (hello.rank > 0 && hello.rank < size_) {
      auto& member = members_[static_cast<std::size_t>(hello.rank)];
      last = farewell(member);
      // Where there are to be more ranks than this group has, some may still come.
      member.heard = member.heard || hello.size == static_cast<std::uint32_t>(size_);
    }
    static_cast<void>(send_some(socket.get(), *last));  // a fresh socket has room for it
    if (!lobby_.full()) turned_away_.emplace_back(std::move(socket));
    return;
  }
  auto& member = members_[static_cast<std::size_t>(hello.rank)];
  member.connection.emplace(std::move(socket), largest_contribute_payload, largest_gathered_payload(size_));
  member.presence = Presence::present;
  member.came = true;
  member.origin = origin;
  form_when_complete();
}

void Hub::form_when_complete() {
  if (!std::ranges::all_of(members_, [](const Member& m) { return m.presence == Presence::present; })) return;
  formed_ = true;
  lobby_.close();  // first: nobody can be told to go ahead and still find this group's listener
  std::uint64_t nonce = 0;
  random_bytes(std::as_writable_bytes(std::span(&nonce, 1)));
  broadcast(make_frame(FrameKind::welcome, Writer().put(nonce).take()));
}

void Hub::reject(const Fault& fault) {
  rejection_ = make_frame(FrameKind::rejected, fault);
  // That others were late may pass. A mistake or a death does not, and all are to hear of it.
  end_ = fault.code == ErrorCode::timeout ? make_frame(FrameKind::ended, fault) : rejection_;
  for (Rank rank = 0; rank < size_; ++rank) send(rank, farewell(members_[static_cast<std::size_t>(rank)]));
}

Frame Hub::farewell(const Member& member) const { return member.gave_up ? end_ : rejection_; }

void Hub::serve(Rank rank) {
  auto& member = members_[static_cast<std::size_t>(rank)];
  bool said_goodbye = false;
  const bool alive = member.connection->receive([&](FrameKind kind, std::span<const std::byte> payload) {
    if (said_goodbye) return;
    said_goodbye = kind == FrameKind::goodbye;
    handle(rank, kind, payload);
  });
  if (said_goodbye && rejection_) member.heard = true;
  // It waits for this hub's end, not to come to it again; unless others need its place to hear why.
  if (said_goodbye && alive && rejection_ && !lobby_.full()) return;
  if (said_goodbye)
    depart(rank, Presence::left);
  else if (!alive)
    depart(rank, Presence::lost);
}

void Hub::handle(Rank from, FrameKind kind, std::span<const std::byte> payload) {
  switch (kind) {
    case FrameKind::contribute:
      return contribute(from, payload);
    case FrameKind::who:
      return send(from, make_frame(FrameKind::missing, who_is_missing()));
    case FrameKind::stuck:
      if (const auto verdict = referee_.hear(from, read_stuck(payload))) broadcast(make_frame(*verdict));
      return;
    case FrameKind::notice:
      return relay(from, read_notice(payload));
    case FrameKind::goodbye:
      return;
    default:
      throw Malformed{};
  }
}

void Hub::contribute(Rank from, std::span<const std::byte> payload) {
  Reader in(payload);
  const auto number = in.get<std::uint64_t>();
  auto& mine = members_[static_cast<std::size_t>(from)].contribution;
  if (number != gather_ || mine)
    return broadcast(
        make_frame(FrameKind::rejected,
                   Fault{ErrorCode::mismatch,
                         {from},
                         "all_gather: rank " + std::to_string(from) + " is in number " +
                             std::to_string(number) + ", others are in number " + std::to_string(gather_) +
                             "; every rank must take part in every all_gather"}));
  const auto bytes = in.get(in.left());
  mine.emplace(bytes.begin(), bytes.end());
  if (!std::ranges::all_of(members_, [](const Member& m) { return m.contribution.has_value(); })) return;
  std::vector<Bytes> all;
  for (auto& member : members_) all.push_back(std::move(*std::exchange(member.contribution, std::nullopt)));
  broadcast(make_gathered(gather_++, all));
}

void Hub::relay(Rank from, Notice notice) {
  notice.rank = from;
  if (notice.kind == Notice::Kind::closed) {
    const auto members = std::exchange(notice.ranks, {});
    const auto frame = make_frame(notice);
    for (const Rank rank : members)
      if (rank >= 0 && rank < size_ && rank != from) send(rank, frame);
    return;
  }
  if (notice.kind != Notice::Kind::aborted) notice.kind = Notice::Kind::failed;  // nobody's departure
  // Each member says so when one has failed. Who reads nothing for long must not be sent all of that.
  const Told told(notice.communicator, notice.kind);
  if (!relayed_.insert(told).second) return;
  order_of_relayed_.push_back(told);
  if (relayed_.size() > most_relayed) {
    relayed_.erase(order_of_relayed_.front());
    order_of_relayed_.pop_front();
  }
  broadcast(make_frame(notice), from);
}

void Hub::depart(Rank rank, Presence how) {
  auto& member = members_[static_cast<std::size_t>(rank)];
  if (!member.connection) return;
  member.connection.reset();
  if (!formed_) {
    member.presence = Presence::absent;
    member.gave_up = how == Presence::left;
    member.heard = member.heard || how == Presence::lost;
    if (how == Presence::lost && !rejection_)
      reject({ErrorCode::peer_lost,
              {rank},
              "rank " + std::to_string(rank) + " (from " + member.origin + ") died before all had joined"});
    return;
  }
  member.presence = how;
  const auto kind = how == Presence::left ? Notice::Kind::left : Notice::Kind::lost;
  broadcast(make_frame(Notice{.kind = kind, .rank = rank, .ranks = {}, .text = {}}));
}

void Hub::broadcast(const Frame& frame, Rank except) {
  for (Rank rank = 0; rank < size_; ++rank)
    if (rank != except) send(rank, frame);
}

void Hub::send(Rank to, const Frame& frame) {
  auto& connection = members_[static_cast<std::size_t>(to)].connection;
  if (connection && !connection->send(frame)) doomed_.insert(to);
}

Fault Hub::who_is_missing() const {
  Fault fault{ErrorCode::timeout, {}, {}};
  std::string names;
  const bool somebody_never_came = std::ranges::any_of(members_, [](const Member& m) { return !m.came; });
  const auto is_missing = [&](const Member& member) {
    if (formed_) return !member.contribution.has_value();
    // One that came and gave up is not to blame while others never came.
    return somebody_never_came ? !member.came : member.presence != Presence::present;
  };
  for (Rank rank = 0; rank < size_; ++rank) {
    if (!is_missing(members_[static_cast<std::size_t>(rank)])) continue;
    if (fault.ranks.size() < 16) names += (names.empty() ? "" : ", ") + std::to_string(rank);
    fault.ranks.push_back(rank);
  }
  if (fault.ranks.size() > 16) names += ", ... (" + std::to_string(fault.ranks.size()) + " in all)";
  fault.text = "rank" + std::string(fault.ranks.size() == 1 ? " " : "s ") + names +
               (formed_ ? " did not take part in time" : " did not join in time");
  if (lobby_.refused() > 0)
    fault.text +=
        "; " + std::to_string(lobby_.refused()) + " connections did not know the secret of this group";
  // Not only now: who gives way to others comes again, and until then there seems to be room.
  if (!formed_ && lobby_.was_full())
    fault.text +=
        "; rank 0's process could not always open another connection, and needs one for each rank: raise its "
        "limit of file descriptors (ulimit -n)";
  return fault;
}

}  // namespace tutti::bootstrap
