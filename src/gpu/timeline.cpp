#include "gpu/timeline.hpp"

#include <utility>

namespace tutti::gpu {

Timeline::Timeline(std::shared_ptr<Api> api) : api_(std::move(api)) {
  last_.event = make_event(api_);
  milestone_.event = make_event(api_);
  captured_ = make_event(api_);
}

// An event from outside a capture cannot be waited for in it. A stream does not end within its capture, so
// its address is enough there.
void Timeline::follow(Stream stream, Capture capture) {
  if (capture) {
    if (capture == last_capture_ && stream != captured_stream_) api_->wait_event(stream, captured_.get());
    return;
  }
  if (last_.number == 0 || api_->stream_id(stream) == last_stream_) return;
  api_->wait_event(stream, last_.event.get());
}

// The last mark alone would never be reached while there is always more to do.
void Timeline::mark(Stream stream, Capture capture, std::uint64_t number) {
  if (capture) {
    api_->record(captured_.get(), stream);
    last_capture_ = capture;
    captured_stream_ = stream;
    return;
  }
  const std::uint64_t id = api_->stream_id(stream);
  api_->record(last_.event.get(), stream);
  last_.number = number;
  last_stream_ = id;
  if (milestone_.number > done_) return;
  api_->record(milestone_.event.get(), stream);
  milestone_.number = number;
}

std::uint64_t Timeline::done() {
  for (const Mark* mark : {&milestone_, &last_})
    if (mark->number > done_ && api_->is_reached(mark->event.get())) done_ = mark->number;
  return done_;
}

void Timeline::finish() {
  if (last_.number != 0) api_->synchronize_event(last_.event.get());
}

}  // namespace tutti::gpu
