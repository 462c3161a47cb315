#include "transport/verbs/completion_events.hpp"

#include <fcntl.h>

namespace tutti::transport::verbs {

CompletionEvents::CompletionEvents(Verbs& verbs, ibv_context* context, const Place& place)
    : verbs_(verbs),
      channel_(made(verbs.create_comp_channel(context), place, "creating an event channel"), {&verbs}) {
  ::fcntl(fd(), F_SETFL, ::fcntl(fd(), F_GETFL) | O_NONBLOCK);
}

void CompletionEvents::arm(ibv_cq* queue) {
  if (armed_ && fired_) clear(queue);
  if (armed_) return;
  verbs_.req_notify_cq(queue);
  armed_ = true;
  fired_ = false;
}

void CompletionEvents::clear(ibv_cq* queue) {
  unsigned count = 0;
  for (ibv_cq* fired = nullptr; verbs_.get_cq_event(channel(), &fired) == 0;) ++count;
  if (count > 0) verbs_.ack_cq_events(queue, count);
  armed_ = false;
}

}  // namespace tutti::transport::verbs
