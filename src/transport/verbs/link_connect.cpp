#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include "bootstrap/frame.hpp"
#include "transport/verbs/link.hpp"

namespace tutti::transport::verbs {

namespace {

constexpr std::uint32_t bit(int channel) { return std::uint32_t{1} << channel; }

}  // namespace

void Link::make_pairs() {
  used_at_ = shared_.now;
  max_inline_ = shared_.options.max_inline;
  for (std::size_t rail = 0; rail < static_cast<std::size_t>(rails_); ++rail) {
    pairs_.push_back(shared_.rails[rail]->make_pair(peer_));
    max_inline_ = std::min(max_inline_, pairs_.back()->max_inline());
    shared_.owners[rail][pairs_.back()->number()] = this;
  }
  pending_.resize(pairs_.size());
  if (!scratch_)
    scratch_ = std::make_unique<Block>(*shared_.verbs, shared_.domains, scratch_bytes, Access::local_read);
}

void Link::begin(PrivateDescriptor connection, bool mine) {
  // The loser of two connections that crossed stays open, unused: closing it would look like a death.
  if (control_ && !(began_ && !mine && peer_ < shared_.rank)) {
    parked_ = Control(std::move(connection));
    return;
  }
  stop_watching();
  control_ = Control(std::move(connection));
  began_ = mine;
  if (failure_) return;  // a device died before the peers met
  try {
    shared_.watch(control_.fd(), static_cast<std::uint32_t>(peer_));
  } catch (const Error& error) {
    return fail(error);
  }
  introduce();
}

// Whoever looks around, or sends, may do so for other peers.
void Link::introduce() {
  try {
    if (pairs_.empty()) make_pairs();
    say_hello();
  } catch (const Error& error) {
    fail(error);
  }
}

// One that is closed, or that nobody reads any more, would be readable for ever.
void Link::stop_watching() {
  if (control_) ::epoll_ctl(shared_.looks.get(), EPOLL_CTL_DEL, control_.fd(), nullptr);
}

void Link::say_hello() {
  Hello hello;
  hello.rails = static_cast<std::uint32_t>(rails_);
  hello.wanted = wanted_ = sending_;
  hello.epoch = epoch_;
  for (std::size_t rail = 0; rail < pairs_.size(); ++rail) hello.addresses.at(rail) = pairs_[rail]->address();
  control_.send(ControlKind::hello, hello);
}

void Link::say_ready() {
  if (!connected() || ready_sent_) return;
  ready_sent_ = true;
  control_.send(ControlKind::ready, Ready{});
}

void Link::send_on(int channel) {
  sending_ |= bit(channel);
  if (!hello_taken_ || (wanted_ & bit(channel)) != 0 || offers_[static_cast<std::size_t>(channel)]) return;
  wanted_ |= bit(channel);
  control_.send(ControlKind::want, Want{static_cast<std::uint32_t>(channel)});
}

void Link::receive_on(int channel) {
  receiving_ |= bit(channel);
  if (hello_taken_ && (offered_ & bit(channel)) == 0 && !finished()) give_offer(channel);
}

void Link::give_offer(int channel) {
  try {
    control_.send(ControlKind::offer, receiver(channel).offer());
    offered_ |= bit(channel);
  } catch (const Error& error) {  // no memory for the slots
    fail(error);
  }
}

bool Link::advance() {
  if (finished()) return false;
  bool changed = false;
  control_.advance([&](ControlKind kind, std::span<const std::byte> bytes) {
    changed = true;
    if (failure_) return;
    try {
      take(kind, bytes);
    } catch (const Error& error) {  // whoever looks around may serve other peers
      fail(error);
    }
  });
  if (control_.closed()) {  // just now: finished links were sorted out
    stop_watching();
    if (!lost_at_) lost_at_ = Clock::now();
    changed = true;
  }
  return changed;
}

void Link::take(ControlKind kind, std::span<const std::byte> bytes) {
  const auto as = [&]<class T>(T value) {
    if (bytes.size() != sizeof value) return violated("it speaks another version of tutti");
    std::memcpy(&value, bytes.data(), sizeof value);
    if constexpr (std::is_same_v<T, Ready>)
      ready_taken_ = true;
    else if constexpr (std::is_same_v<T, Want>)
      give_offer(static_cast<int>(value.channel % channels));
    else
      take(value);
  };
  switch (kind) {
    case ControlKind::hello:
      return as(Hello{});
    case ControlKind::ready:
      return as(Ready{});
    case ControlKind::want:
      return as(Want{});
    case ControlKind::offer:
      return as(Offer{});
    case ControlKind::bye:
      return as(Bye{});
    case ControlKind::rest:
      return as(Rest{});
    case ControlKind::stay:
      return as(Stay{});
  }
  violated("it speaks another version of tutti");
}

void Link::take(const Hello& hello) {
  if (theirs_at_rest_) {
    early_hello_ = hello;
    return;
  }
  if (hello_taken_ || hello.rails != static_cast<std::uint32_t>(rails_) || hello.epoch != epoch_)
    return violated("it introduces itself twice, or counts other devices than it said first");
  if (pairs_.empty()) introduce();
  if (failure_) return;
  hello_taken_ = true;
  theirs_ = hello;
  connect_by_ = Clock::now() + unreachable_for;
  try {
    for (std::size_t rail = 0; rail < pairs_.size(); ++rail)
      if (auto* manager = shared_.rails[rail]->manager(); manager != nullptr && shared_.rank < peer_)
        manager->connect(pairs_[rail]->number(), theirs_.addresses.at(rail));
  } catch (const Error& error) {
    return fail(bootstrap::with_context(error, "", {peer_}));  // what cannot be reached
  }
  connect_pairs();
  say_ready();  // rdma_cm may have connected all before
  for (int channel = 0; channel < channels; ++channel) {
    if (((hello.wanted | receiving_) & bit(channel)) != 0) give_offer(channel);
    if ((sending_ & bit(channel)) != 0) send_on(channel);
  }
}

// Those that no manager connects; again and again while there is no way to the peer.
void Link::connect_pairs() {
  const auto now = Clock::now();
  if (!hello_taken_ || connected() || now < connect_next_) return;
  connect_next_ = now + retry_unreachable_after;
  try {
    for (std::size_t rail = 0; rail < pairs_.size(); ++rail) {
      const auto bit = 1U << rail;
      if ((connected_rails_ & bit) != 0 || shared_.rails[rail]->manager() != nullptr) continue;
      if (pairs_[rail]->connect(theirs_.addresses.at(rail), 1, now >= connect_by_)) connected_rails_ |= bit;
    }
  } catch (const Error& error) {
    return fail(error);
  }
  say_ready();
}

void Link::managed_outcome(std::size_t rail_number, const ConnectionManager::Outcome& outcome) {
  if (finished()) return;
  if (!outcome.failure.empty()) {
    const auto& rail = *shared_.rails[rail_number];
    return fail(Error(ErrorCode::peer_lost,
                      fmt::format("verbs, {} port {} to rank {}: rdma_cm does not connect: {}; look at the "
                                  "route between the two addresses and at firewalls",
                                  rail.device().name, rail.port().number, peer_, outcome.failure),
                      {peer_}));
  }
  connected_rails_ |= 1U << rail_number;
  say_ready();
}

void Link::take(const Offer& offer) {
  if (offer.channel >= channels || offer.stride != slot_stride(shared_.agreed.message_bytes))
    return violated("it offers slots of another size");
  offers_[offer.channel] = offer;
}

void Link::take(const Bye& bye) {
  bye_taken_ = true;
  for (int channel = 0; channel < channels; ++channel)
    sender(channel).delivered(bye.arrived[static_cast<std::size_t>(channel)]);
}

void Link::request_completions() {
  if (!ready() || failure_) return;
  for (auto& pair : pairs_) {
    if (pair->drained() || pair->will_complete() || pair->room() == 0) continue;
    Write nothing;
    nothing.signalled = true;
    pair->add(nothing);
  }
  ring();
}

bool Link::all_delivered() const {
  if (finished()) return true;
  bool credited = true;
  for (const auto& sender : senders_) {
    if (sender.pending()) return false;
    credited = credited && sender.all_credited();
  }
  if (credited) return true;
  for (const auto& pair : pairs_)
    if (!pair->drained()) return false;
  return true;
}

void Link::say_bye() {
  if (finished() || (!hello_taken_ && !resting())) return;
  Bye bye;
  for (int channel = 0; channel < channels; ++channel)
    bye.arrived[static_cast<std::size_t>(channel)] = receiver(channel).complete_count();
  control_.send(ControlKind::bye, bye);
}

}  // namespace tutti::transport::verbs
