// Queue pairs that nobody uses are closed: a device keeps the state of few in its cache, and some have few.
// Both sides must have nothing under way, or a message would be lost. So one side says that it rests, and
// posts nothing from then on; the other says the same, if it has nothing under way either. Each closes when
// it has taken as many signals as the other sent. The control connection stays, slots stay registered, and
// the numbers of messages and credits go on: `hello` makes new queue pairs, under the next epoch.
#include <algorithm>
#include <utility>

#include "transport/verbs/link.hpp"

namespace tutti::transport::verbs {

// Messages that arrived and were not released would do no harm, but who has them will use the link soon.
bool Link::in_use() const {
  return std::ranges::any_of(senders_, &VerbsSender::pending) ||
         !std::ranges::all_of(receivers_, &VerbsReceiver::empty);
}

bool Link::drained() const {
  return std::ranges::all_of(pairs_, [](const auto& pair) { return pair->drained(); });
}

void Link::try_to_rest() {
  if (!ready() || asked_ || finished()) return;
  // A connection manager tears down more than a queue pair, and says so to both sides at different times.
  if (in_use() || shared_.rails[0]->manager() != nullptr) {
    used_at_ = shared_.now;  // the turn of others
  } else if (drained()) {
    ask();
  } else {
    request_completions();
  }
}

void Link::ask() {
  asked_ = released_;
  Rest rest;
  rest.signals = signals_sent_;
  std::ranges::transform(released_, rest.released.begin(),
                         [](std::uint64_t number) { return static_cast<std::uint16_t>(number); });
  control_.send(ControlKind::rest, rest);
}

// Answered at the next look, not amid what else came: queue pairs may be in use by whoever looked.
void Link::take(const Rest& rest) {
  if (!ready() || theirs_at_rest_) return violated("it rests before it was connected, or twice");
  theirs_at_rest_ = rest;
}

// What waits to be posted is posted at the next look.
void Link::take(const Stay&) {
  asked_.reset();
  used_at_ = shared_.now;
}

void Link::rest_if_agreed() {
  if (!theirs_at_rest_ || finished()) return;
  if (!asked_ && in_use()) {
    theirs_at_rest_.reset();
    return control_.send(ControlKind::stay, Stay{});
  }
  request_completions();
  if (!drained() || signals_taken_ != theirs_at_rest_->signals) return;  // soon
  if (!asked_) ask();
  rest();
}

void Link::rest() {
  shared_.traffic.queue_pairs_closed += pairs_.size();
  close_pairs();
  hello_taken_ = ready_sent_ = ready_taken_ = false;
  connected_rails_ = 0;
  connect_next_ = {};
  signals_sent_ = signals_taken_ = {};
  told_ = *std::exchange(asked_, std::nullopt);
  const Rest theirs = *std::exchange(theirs_at_rest_, std::nullopt);
  ++epoch_;
  // Not before all that was sent has been taken: credits never overtake each other. They may wake the link.
  for (int channel = 0; channel < channels; ++channel)
    sender(channel).credit(theirs.released.at(static_cast<std::size_t>(channel)));
  if (const auto hello = std::exchange(early_hello_, std::nullopt)) take(*hello);
}

void Link::close_pairs() {
  for (std::size_t rail = 0; rail < pairs_.size(); ++rail) {
    shared_.owners[rail].erase(pairs_[rail]->number());
    shared_.rails[rail]->forget_pair(*pairs_[rail]);
  }
  pairs_.clear();
  pending_.clear();
}

}  // namespace tutti::transport::verbs
