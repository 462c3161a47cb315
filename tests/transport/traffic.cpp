#include "traffic.hpp"

#include <algorithm>
#include <utility>

namespace tutti::transport::testing {

namespace {

constexpr std::size_t guard = 64;  // bytes behind a receive buffer that must not change

}  // namespace

std::vector<std::size_t> random_sizes(std::uint64_t seed, std::size_t count, std::size_t max) {
  Random random(seed);
  std::vector<std::size_t> sizes(count);
  for (auto& size : sizes) {
    const auto kind = random.below(8);
    size = kind == 0   ? 0
           : kind == 1 ? max
                       : random.below(kind < 6 ? std::min<std::size_t>(max, 300) : max) + 1;
  }
  return sizes;
}

Feeder::Feeder(Sender& sender, const Script& script)
    : sender_(sender), script_(script), random_(script.seed + 1) {
  buffer_.resize(*std::ranges::max_element(script.sizes));
}

bool Feeder::step() {
  if (random_.below(4) == 0) return false;
  if (!lent_.empty() && sender_.flushed()) {
    for (auto& bytes : lent_) {
      scribble(bytes);
      returned_.push_back(std::move(bytes));
    }
    lent_.clear();
  }
  if (next_ == script_.sizes.size()) return lent_.empty() && sender_.flushed();
  auto way = Random(script_.content(next_)).below(3);
  if (way == 0 && !script_.views) way = 1;
  const bool sent = way == 0 ? send_reserved(next_) : way == 1 ? send_unstable(next_) : send_stable(next_);
  if (sent) {
    ++next_;
    prepared_ = false;
  }
  return false;
}

bool Feeder::send_reserved(std::size_t k) {
  std::byte* room = sender_.try_reserve(script_.sizes[k]);
  if (room == nullptr) return false;
  fill({room, script_.sizes[k]}, script_.content(k));
  require(sender_.try_reserve(script_.sizes[k]) == room,
          "a second try_reserve gave other room before publish");
  sender_.publish(script_.sizes[k], script_.tag(k));
  return true;
}

bool Feeder::send_unstable(std::size_t k) {
  const std::span<std::byte> bytes(buffer_.data(), script_.sizes[k]);
  if (!std::exchange(prepared_, true)) fill(bytes, script_.content(k));
  if (!sender_.try_send(bytes.data(), bytes.size(), script_.tag(k), false)) return false;
  scribble(bytes);
  return true;
}

bool Feeder::send_stable(std::size_t k) {
  const auto bytes = script_.sizes[k];
  if (!std::exchange(prepared_, true)) {
    next_lent_.resize(bytes);
    fill(next_lent_, script_.content(k));
  }
  if (!sender_.try_send(bytes == 0 ? nullptr : next_lent_.data(), bytes, script_.tag(k), true)) return false;
  lent_.push_back(std::exchange(next_lent_, {}));  // keeps its address
  return true;
}

Taker::Taker(Receiver& receiver, const Script& script, std::string name)
    : receiver_(receiver), script_(script), name_(std::move(name)), random_(script.seed + 2) {
  buffer_.resize(*std::ranges::max_element(script.sizes) + guard);
}

bool Taker::step() {
  if (next_ == script_.sizes.size()) return true;
  if (random_.below(4) == 0) return false;
  const bool views = script_.views && Random(script_.content(next_)).below(7) < 3;
  if (views ? take_view(next_) : take_in_place(next_)) ++next_;
  return next_ == script_.sizes.size();
}

bool Taker::take_view(std::size_t k) {
  const auto bytes = script_.sizes[k];
  const bool fresh = view_ == nullptr;
  const std::byte* view = receiver_.try_acquire(bytes, script_.tag(k));
  require(fresh || view == view_, name_ + ": a view moved before its release");
  view_ = view;
  if (view == nullptr) return false;
  require_filled({view, bytes}, script_.content(k), name_ + ", view of message " + std::to_string(k));
  if (random_.below(3) != 0) return false;  // keep it for a while, and compare again
  receiver_.release();
  view_ = nullptr;
  return true;
}

bool Taker::take_in_place(std::size_t k) {
  const auto bytes = script_.sizes[k];
  scribble(std::span(buffer_).subspan(bytes, guard));
  if (!receiver_.try_receive(buffer_.data(), bytes, script_.tag(k))) return false;
  require_filled({buffer_.data(), bytes}, script_.content(k), name_ + ", message " + std::to_string(k));
  require(std::ranges::all_of(std::span(buffer_).subspan(bytes, guard),
                              [](std::byte b) { return b == std::byte{0xee}; }),
          name_ + ": try_receive wrote behind the end of message " + std::to_string(k));
  return true;
}

}  // namespace tutti::transport::testing
