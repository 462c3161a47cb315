#include "bootstrap/lobby.hpp"

#include <cerrno>

#include "bootstrap/socket.hpp"

namespace tutti::bootstrap {
namespace {

constexpr std::chrono::milliseconds handshake_timeout{10'000};
constexpr int out_of_descriptors_pause_ms = 10;
constexpr int most_accepts =
    64;  ///< in one go, so that a flood of connections does not keep the hub from its members

}  // namespace

Lobby::Lobby(FileDescriptor listener, const Secret& secret, std::size_t most)
    : listener_(std::move(listener)), secret_(secret), most_(most) {}

void Lobby::add_to(std::vector<pollfd>& waiting) const {
  if (!listener_) return;
  waiting.push_back({listener_.get(), static_cast<short>(full_ ? 0 : POLLIN), 0});
  for (const auto& one : arrivals_) waiting.push_back({one.fd(), POLLIN, 0});
}

int Lobby::poll_ms() const {
  if (!listener_) return -1;
  if (full_) return out_of_descriptors_pause_ms;
  return arrivals_.empty() ? -1 : arrivals_.front().deadline().poll_ms();
}

void Lobby::advance(std::span<const pollfd> results, const Enter& enter) {
  if (!listener_) return;
  std::deque<Accepting> staying;
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    auto& arrival = arrivals_[i];
    const bool due = results[1 + i].revents != 0 || arrival.deadline().passed();
    if (!due || !advance_one(arrival, enter)) staying.push_back(std::move(arrival));
  }
  if (!listener_) return;  // the last rank has entered, and it was closed
  arrivals_ = std::move(staying);
  accept_some(enter);
}

bool Lobby::advance_one(Accepting& arrival, const Enter& enter) {
  switch (arrival.advance()) {
    case Accepting::State::pending:
      return false;
    case Accepting::State::refused:
      ++refused_;
      return true;
    case Accepting::State::gone:
      return true;
    case Accepting::State::authenticated:
      enter(arrival.take(), arrival.hello());
      return true;
  }
  return true;
}

void Lobby::accept_some(const Enter& enter) {
  full_ = false;
  for (int i = 0; i < most_accepts; ++i) {
    auto connection = accept_from(listener_.get());
    if (!connection) {
      full_ = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      // Which is found out before whether anybody has come, for whom one would have to give way.
      if (!full_ || !wait_for(listener_.get(), POLLIN, Deadline(std::chrono::milliseconds(0)))) return;
      was_full_ = true;
      if (!arrivals_.empty()) arrivals_.pop_front();
      return;
    }
    Accepting arrival(std::move(connection), secret_, handshake_timeout);
    if (advance_one(arrival, enter)) continue;
    arrivals_.push_back(std::move(arrival));
    if (arrivals_.size() > most_) arrivals_.pop_front();
  }
}

void Lobby::close() {
  listener_.reset();
  arrivals_.clear();
}

}  // namespace tutti::bootstrap
