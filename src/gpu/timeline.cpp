#include "gpu/timeline.hpp"

#include <utility>

namespace tutti::gpu {

Timeline::Timeline(std::shared_ptr<Api> api) : api_(std::move(api)) {
  for (Mark& mark : marks_) mark.event = make_event(api_);
}

void Timeline::follow(Stream stream) {
  if (marked_ == 0 || api_->stream_id(stream) == last_stream_) return;
  api_->wait_event(stream, marks_[marked_ % marks_.size()].event.get());
}

void Timeline::mark(Stream stream, std::uint64_t number) {
  Mark& mark = marks_[++marked_ % marks_.size()];
  mark.number = number;
  last_stream_ = api_->stream_id(stream);
  api_->record(mark.event.get(), stream);
}

std::uint64_t Timeline::done() const {
  std::uint64_t done = 0;
  for (const Mark& mark : marks_)
    if (mark.number > done && api_->is_reached(mark.event.get())) done = mark.number;
  return done;
}

void Timeline::finish() {
  if (marked_ != 0) api_->synchronize_event(marks_[marked_ % marks_.size()].event.get());
}

}  // namespace tutti::gpu
