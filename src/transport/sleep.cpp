#include "transport/sleep.hpp"

#include <algorithm>
#include <span>

#include "base/timespec.hpp"

namespace tutti::transport {

void Sleep::prepare() {
  for (Transport* const one : on_) one->prepare_wait();
}

void Sleep::cancel() {
  for (Transport* const one : on_) one->cancel_wait();
}

bool Sleep::backlogged() const {
  return std::ranges::any_of(on_, [](const Transport* one) { return one->backlogged(); });
}

void Sleep::wait(std::chrono::microseconds longest) {
  if (on_.size() == 1) return on_.front()->wait(longest);
  waits_.clear();
  ends_.clear();
  for (Transport* const one : on_) {
    if (!one->add_waits(waits_)) return cancel();
    ends_.push_back(waits_.size());
  }
  const timespec limit = timespec_of(longest);
  ::ppoll(waits_.data(), waits_.size(), &limit, nullptr);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < on_.size(); begin = ends_[i++])
    on_[i]->end_wait(std::span(waits_).subspan(begin, ends_[i] - begin));
}

}  // namespace tutti::transport
