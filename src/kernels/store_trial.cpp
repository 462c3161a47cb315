#include "kernels/store_trial.hpp"

#include <algorithm>
#include <limits>

#include "base/ticks.hpp"
#include "kernels/fold.hpp"

namespace tutti::kernels {

void StoreTrial::begin(std::size_t bytes) {
  if (plan(bytes)) started_ = ticks();
}

void StoreTrial::end(std::size_t bytes) { took(bytes, timed_ ? ticks_when_stored() - started_ : 0); }

bool StoreTrial::plan(std::size_t bytes) {
  const bool counts = bytes >= least && can_pass_caches;
  probing_ = counts && messages_ == gap_;
  timed_ = probing_ || (counts && messages_ % (gap_ / first_gap) == 0);
  return timed_;
}

void StoreTrial::took(std::size_t bytes, std::uint64_t ticks) {
  if (bytes < least) return;
  ++messages_;
  if (!timed_) return;
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  const auto cost = static_cast<std::uint32_t>(std::clamp<std::uint64_t>((ticks << 10) / bytes, 1, most));
  if (probing_) {
    other_ = cost;
    messages_ = 0;
    gap_ = std::min(2 * gap_, longest_gap);
  } else {
    recent_[seen_++ % recent_.size()] = cost;
  }
  if (other_ != 0 && seen_ >= recent_.size()) decide();
}

// Whatever comes in between, a change of who runs say, makes a message slower, never faster: of some, the
// fastest tells.
void StoreTrial::decide() {
  const std::uint32_t usual = *std::min_element(recent_.begin(), recent_.end());
  const std::uint64_t through = past_ ? other_ : usual;
  const std::uint64_t past = past_ ? usual : other_;
  if ((through * 100 >= past * too_long) == past_) return;
  past_ = !past_;
  probing_ = false;
  recent_.fill(other_);
  other_ = usual;
  messages_ = 0;
  gap_ = first_gap;
}

}  // namespace tutti::kernels
