#include "transport/verbs/device_events.hpp"

#include <fcntl.h>
#include <poll.h>

#include "transport/verbs/status.hpp"

namespace tutti::transport::verbs {

namespace {

bool is_of_queue_pair(ibv_event_type type) {
  return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR || type == IBV_EVENT_QP_ACCESS_ERR;
}

}  // namespace

DeviceEvents::DeviceEvents(Verbs& verbs, ibv_context* context) : verbs_(verbs), context_(context) {
  ::fcntl(fd(), F_SETFL, ::fcntl(fd(), F_GETFL) | O_NONBLOCK);
}

std::optional<DeviceEvents::Event> DeviceEvents::take() {
  pollfd one{fd(), POLLIN, 0};
  if (::poll(&one, 1, 0) <= 0) return std::nullopt;
  ibv_async_event event{};
  if (verbs_.get_async_event(context_, &event) != 0) {
    // The kernel reports POLLERR once the device is gone and all events were read.
    if (loss_ || (one.revents & (POLLERR | POLLHUP)) == 0) return std::nullopt;
    loss_ = IBV_EVENT_DEVICE_FATAL;
    return Event{*loss_, {}};
  }
  Event taken{event.event_type, {}};
  // The queue pair may be gone once this is acknowledged.
  if (is_of_queue_pair(taken.type))
    taken.queue_pair = event.element.qp->qp_num;
  else if (is_fatal(taken.type) && !loss_)
    loss_ = taken.type;
  verbs_.ack_async_event(&event);
  return taken;
}

}  // namespace tutti::transport::verbs
